# Helpers for memweir in a guest: output and exit code of a command, and the figures of its JSON.
. /lib.sh

# run CODE COMMAND...: the command ends with CODE; its output is in /tmp/out and /tmp/err.
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

# said WORDS: succeeds if the last command wrote them.
said() {
    grep -qF -- "$1" /tmp/out /tmp/err && return
    echo "it did not say \`$1\`:"
    cat /tmp/out /tmp/err
    return 1
}

# number NAME FILE: a number of a JSON file, or `null`.
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
