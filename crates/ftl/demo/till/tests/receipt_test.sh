for part in money cart discount tax receipt; do
    . "lib/$part.sh"
done

test_a_line_for_each_thing() { is "$(receipt examples/monday.list | sed -n 1p)" "2 x tea             5.00"; }
test_what_is_to_be_paid() { is "$(receipt examples/monday.list | tail -n 1)" "total               9.23"; }
