# Helpers of the suites' scripts inside the guest.

# check NAME COMMAND...: one line, PASS or FAIL.
check() {
    name=$1
    shift
    if "$@" >/tmp/check.out 2>&1; then
        echo "PASS $name"
    else
        cat /tmp/check.out
        echo "FAIL $name"
    fi
}

put() {
    echo "$1" >"$2"
}

skip() {
    echo "SKIPPED: $*"
}

# The value of a word=value on the kernel's command line.
argument() {
    tr ' ' '\n' </proc/cmdline | sed -n "s/^$1=//p"
}

# Hundredths of a second since the boot.
clock() {
    cut -d ' ' -f 1 /proc/uptime | tr -d .
}

# within SECONDS COMMAND...: the command succeeds before the time is over.
within() {
    until=$(($(clock) + $1 * 100))
    shift
    until "$@" >/tmp/within.out 2>&1; do
        [ "$(clock)" -lt $until ] || { cat /tmp/within.out; return 1; }
        sleep 0.1
    done
}
