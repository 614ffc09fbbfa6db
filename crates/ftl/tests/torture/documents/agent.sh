# An agent that is a process. Two of the same at one time would be seen.
exec 9>lock.agent
flock -n 9 || echo "$FTL_KEY agent" >>overlaps
sleep 0.03
echo '{"text": "lift c", "confidence": "HIGH"}'
