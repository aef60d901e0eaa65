#!/bin/sh
# Records the page accesses of five real programs, as `memweir reproduce drswap` shows them: under
# qemu-user with caches of some KiB, then reduced to references to pages. Needs memweir, its
# plugin, qemu-user, python3, sqlite3, perl, redis-server and gcc. Takes some minutes; the
# results differ a little with their versions.
set -eu
cd "$(dirname "$0")"
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT

record() {
    name=$1 window=$2
    shift 2
    memweir profile --meter software --caches caches.toml --no-store \
        --addresses "$directory/$name.mwt" -- "$@"
    memweir page refs --window "$window" "$directory/$name.mwt" "$name.mwt"
}

record python3 100000 python3 python3.py
record sqlite3 100000 sqlite3 :memory: '.read sqlite3.sql'
record perl 100000 perl perl.pl
record redis 1000000 sh redis.sh
record gcc 1000000 sh gcc.sh
