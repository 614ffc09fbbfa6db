. lib/tax.sh

test_eight_in_a_hundred() { is "$(tax 1000)" 80; }
test_rounds_down() { is "$(tax 856)" 68; }
test_rounds_up() { is "$(tax 857)" 69; }
