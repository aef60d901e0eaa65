# Helpers for memweir in a guest: what a command said, how it ended, what its JSON holds.
. /lib.sh

# run CODE COMMAND...: the command ends with CODE; what it said is in /tmp/out and /tmp/err.
run() {
    code=$1
    shift
    "$@" >/tmp/out 2>/tmp/err
    ended=$?
    [ "$ended" = "$code" ] && return
    echo "$*: ended with $ended, not $code"
    cat /tmp/out /tmp/err
    return 1
}

# said WORDS: in what the last command wrote.
said() {
    grep -qF -- "$1" /tmp/out /tmp/err && return
    echo "it did not say \`$1\`:"
    cat /tmp/out /tmp/err
    return 1
}

# number NAME FILE: a number of a JSON file; `null` if that is what it is.
number() {
    sed -n "s/^ *\"$1\": *\([0-9a-z]*\),\{0,1\}$/\1/p" "$2"
}

# counted NAME FILE OPERATOR NUMBER: compares it.
counted() {
    echo "$1 $(number "$1" "$2") $3 $4"
    [ "$(number "$1" "$2")" "$3" "$4" ]
}

vmstat() {
    sed -n "s/^$1 //p" /proc/vmstat
}

# grew NAME BEFORE LEAST: a counter of the kernel.
grew() {
    echo "$1 from $2 to $(vmstat "$1"), by $3 at least"
    [ $(($(vmstat "$1") - $2)) -ge "$3" ]
}

no_group_is_left() {
    ! ls -d /cg/memweir* 2>/dev/null
}
