. lib/money.sh

test_whole_dollars() { is "$(cents 3)" 300; }
test_two_places() { is "$(cents 12.50)" 1250; }
test_one_place() { is "$(cents 0.5)" 50; }
test_eight_cents() { is "$(cents 0.08)" 8; }
test_back_to_dollars() { is "$(dollars 1250)" 12.50; }
test_back_to_cents() { is "$(dollars 5)" 0.05; }
