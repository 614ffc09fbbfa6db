. lib/money.sh
. lib/cart.sh

test_adds_up() { is "$(subtotal examples/monday.list)" 950; }
test_nothing_costs_nothing() { is "$(subtotal /dev/null)" 0; }
