#!/bin/sh
# Starts one test program for `go test`, and says which of its tests ran and how they ended.
program=$1
shift
report=$FTL_REPORT
unset FTL_REPORT
for name in $(env | sed -n 's/^FTL_REPORT_\([A-Z0-9_]*\)=.*/\1/p'); do
    eval "value=\$FTL_REPORT_$name"
    if [ -n "$value" ]; then eval "export $name=\$value"; else unset "$name"; fi
    unset "FTL_REPORT_$name"
done
[ -n "$report" ] || exec "$program" "$@"
case $program in *.test) ;; *) exec "$program" "$@" ;; esac
all=yes
for word; do
    case $word in
    -test.list* | -test.bench=?* | -test.fuzz=?* | -test.v=test2json) exec "$program" "$@" ;;
    -test.run* | -test.skip* | -test.short* | -test.failfast*) all=no ;;
    esac
done
package=$PWD
id="go test-$$"
printf 'start\t%s\tgo test\n' "$id" >>"$report"
if [ $all = yes ]; then
    count=$("$program" -test.list . 2>/dev/null | grep -c '^\(Test\|Example\|Fuzz\)')
    printf 'collected\t%s\t%s\n' "$id" "$count" >>"$report"
fi
log=$report.$$
{
    "$program" "$@" -test.v=true
    echo $? >"$log.status"
} | tee "$log"
status=$(cat "$log.status")
tab=$(printf '\t')
sed -n -e "s|^ *--- PASS: \([^ ]*\) (.*|test$tab$id${tab}passed$tab$package$tab\1|p" \
    -e "s|^ *--- FAIL: \([^ ]*\) (.*|test$tab$id${tab}failed$tab$package$tab\1|p" \
    -e "s|^ *--- SKIP: \([^ ]*\) (.*|test$tab$id${tab}skipped$tab$package$tab\1|p" "$log" >>"$report"
rm -f "$log" "$log.status"
printf 'end\t%s\t%s\n' "$id" "$status" >>"$report"
exit "$status"
