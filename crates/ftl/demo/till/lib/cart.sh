# A list has one thing a line: how many, what each costs, what it is.

# subtotal LIST prints the cents of all things in it.
subtotal() { echo "subtotal: not written yet" >&2; return 1; }
