# Money is counted in whole cents.

# cents 12.50 prints 1250.
cents() { echo "cents: not written yet" >&2; return 1; }

# dollars 1250 prints 12.50.
dollars() { echo "dollars: not written yet" >&2; return 1; }
