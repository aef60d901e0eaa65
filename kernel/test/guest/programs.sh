# Real programs on a quarter of the DRAM that they take, with direct read and without: Table IV of
# drswap for these, each alone and all at once. Their output has to be the same as with memory
# for all.
. /memweir.sh

# gcc.sh asks the compiler's driver for the compiler.
printf '#!/bin/sh\necho cc1\n' >/bin/gcc
chmod 755 /bin/gcc
# The compiler wants some directory of headers, though no header.
mkdir -p /usr/include /tmp/answers
mkswap /dev/pmem0 >/dev/null
names='python3 perl sqlite3 redis gcc'
if setcc-fault; then emulator=exact; else emulator=inexact; fi

command_of() {
    case $1 in
    python3) echo "exec python3 -S /data/python3.py" ;;
    perl) echo "exec perl /data/perl.pl" ;;
    sqlite3) echo "exec sqlite3 :memory: </data/sqlite3.sql" ;;
    redis) echo "exec redis.sh" ;;
    gcc) echo "exec gcc.sh" ;;
    together)
        for one in $names; do
            echo "($(command_of "$one")) >/tmp/answers/$one 2>&1 &"
        done
        echo "wait; cat /tmp/answers/*"
        ;;
    esac
}

# page_run NAME KIND DRAM OPTION...: the output is in /tmp/NAME.KIND if the program ends on its own,
# without the messages of redis that carry the time; the counts are beside it.
page_run() {
    said=/tmp/$1.$2
    of=$(command_of "$1")
    dram=$3
    shift 3
    memweir page run --kernel --dram "$dram" "$@" --swap /dev/pmem0 --json "$said.json" \
        -- sh -c "$of" >"$said.whole" 2>"$said.err" ||
        { cat "$said.whole" "$said.err"; return 1; }
    grep -v '^[0-9]*:[CM] ' "$said.whole" >"$said"
}

# percent PART WHOLE, with one decimal
percent() {
    awk "BEGIN { printf \"%.1f\", $2 ? 100 * ($1) / $2 : 0 }"
}

# says_the_same NAME KIND WORDS: as with memory for all; a difference that the emulator may have
# made is no failure.
says_the_same() {
    if [ $emulator = inexact ] && [ -e "/tmp/$1.$2" ] && ! cmp -s "/tmp/$1.all" "/tmp/$1.$2"; then
        skip "$1 says something else, $3: this emulator takes wrong flags after some faults"
    else
        check "$1 says the same, $3" cmp "/tmp/$1.all" "/tmp/$1.$2"
    fi
}

measure() {
    check "$1 with memory for all" page_run "$1" all 512M
    peak=$(number dram_peak_bytes "/tmp/$1.all.json")
    check "$1 with a quarter, copied" page_run "$1" copied $((peak / 4)) --no-direct-read
    check "$1 with a quarter, in place" page_run "$1" direct $((peak / 4))
    says_the_same "$1" copied copied
    says_the_same "$1" direct "in place"
    # A program that was ended half-way has counts, too, but they mean nothing.
    [ -e "/tmp/$1.copied" ] && [ -e "/tmp/$1.direct" ] || return 0
    copied=$(number copies_in "/tmp/$1.copied.json")
    direct=$(number copies_in "/tmp/$1.direct.json")
    reads=$(number direct_reads "/tmp/$1.direct.json")
    avoided=$(number copies_avoided "/tmp/$1.direct.json")
    echo "COST $1: $((peak >> 10)) KiB; copies in with a quarter $copied, with direct read $direct ($(percent "$copied - $direct" "$copied") % fewer);" \
        "read in place $reads, not written afterwards $avoided ($(percent "$avoided" "$reads") %)"
}

for name in $names together; do
    measure "$name"
done
true
