. lib/discount.sh

test_small_sums_get_none() { is "$(discount 499)" 0; }
test_from_five_dollars_on() { is "$(discount 500)" 50; }
test_half_a_cent_is_a_cent() { is "$(discount 905)" 91; }
