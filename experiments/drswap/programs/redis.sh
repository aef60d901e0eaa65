#!/bin/sh
# A server with a data set that is filled by one client and read by others, over a socket.
set -eu
socket=$(mktemp -u)
redis-server --port 0 --unixsocket "$socket" --save '' \
    --appendonly no --daemonize no --loglevel warning &
server=$!
until redis-cli -s "$socket" ping >/dev/null 2>&1; do sleep 0.2; done
redis-cli -s "$socket" eval "for i=1,60000 do redis.call('set','key'..i,string.rep('x',100)..i) end" 0
for turn in 1 2 3 4 5 6; do
    redis-cli -s "$socket" eval "local n=0 for i=1,60000,3 do n=n+#redis.call('get','key'..((i*7919+$turn)%60000+1)) end return n" 0
done
redis-cli -s "$socket" shutdown nosave || true
wait $server
