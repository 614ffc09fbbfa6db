# receipt LIST prints a line for each thing, then what is to be paid.
receipt() { echo "receipt: not written yet" >&2; return 1; }
