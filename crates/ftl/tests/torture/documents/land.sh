# Lands once for each key. Two at the same time, or one thing under two keys, would be seen.
exec 9>"lock.$1"
flock -n 9 || echo "$FTL_KEY $1" >>overlaps
grep -qxF "$FTL_KEY $1" landed 2>/dev/null || echo "$FTL_KEY $1" >>landed
echo "landed $1"
