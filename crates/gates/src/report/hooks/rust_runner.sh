#!/bin/sh
# Starts one test program for cargo or nextest, and says which of its tests ran and how they ended.
program=$1
shift
report=$FTL_REPORT
unset FTL_REPORT
for name in $(env | sed -n 's/^FTL_REPORT_\([A-Z0-9_]*\)=.*/\1/p'); do
    eval "value=\$FTL_REPORT_$name"
    if [ -n "$value" ]; then eval "export $name=\$value"; else unset "$name"; fi
    unset "FTL_REPORT_$name"
done
plain() { exec "$program" "$@"; }
[ -n "$report" ] || plain "$@"
# Programs, examples and documentation are run as they are.
case $program in */deps/*) ;; *) plain "$@" ;; esac
for word; do
    case $word in --list | --help | -h | --logfile | --logfile=* | --bench) plain "$@" ;; esac
done
# nextest starts a test at a time, so that the program's own end says how it went.
if [ -n "$NEXTEST" ]; then
    test=
    for word; do
        case $word in -*) ;; *) test=${test:-$word} ;; esac
    done
    base=${program##*/}
    base=${base%-*}
    id="cargo nextest-$$"
    printf 'start\t%s\tcargo nextest\n' "$id" >>"$report"
    trap '' INT
    "$program" "$@"
    status=$?
    outcome=failed
    [ $status = 0 ] && outcome=passed
    [ -n "$test" ] && printf 'test\t%s\t%s\t%s\t%s\n' "$id" "$outcome" "$base" "$base::$test" >>"$report"
    printf 'end\t%s\t%s\n' "$id" "$status" >>"$report"
    exit $status
fi
grep -q 'Write logs to the specified file' "$program" || plain "$@"
base=${program##*/}
base=${base%-*}
id="cargo test-$$"
printf 'start\t%s\tcargo test\n' "$id" >>"$report"
log=$report.$$
: >"$log"
count=$("$program" "$@" --list --format terse 2>/dev/null | grep -c ': test$')
printf 'collected\t%s\t%s\n' "$id" "$count" >>"$report"
trap '' INT
"$program" "$@" --logfile "$log"
status=$?
sed -n -e "s|^ok \(.*\)|test	$id	passed	$base	$base::\1|p" -e "s|^failed \(.*\)|test	$id	failed	$base	$base::\1|p" \
    -e "s|^ignored \(.*\)|test	$id	skipped	$base	$base::\1|p" "$log" >>"$report"
rm -f "$log"
printf 'end\t%s\t%s\n' "$id" "$status" >>"$report"
exit "$status"
