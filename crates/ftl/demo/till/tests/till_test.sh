test_prints_a_receipt() { is "$(./till examples/monday.list | wc -l | tr -d ' ')" 6; }
test_says_how_it_is_used() { is "$(./till 2>&1)" "usage: till LIST"; }
