# discount CENTS prints the cents that are taken off: 10 in 100 from five dollars on. Half a cent is a cent.
discount() { echo "discount: not written yet" >&2; return 1; }
