#!/bin/sh
# Makes sure that a make target finds its tools: installs Debian packages when root, prints the
# one command to run otherwise.
#
#   scripts/setup.sh build|demo|test|python|bench|docs|browser|fuzz|kernel|soak|review|deb|
#                    deb-test|screenshot|engines
set -eu

here=$(dirname "$0")
packages=

# need COMMAND PACKAGE...: the packages are wanted if the command is missing.
need() {
    command=$1
    shift
    command -v "$command" >/dev/null 2>&1 || packages="$packages $*"
}

compiler() {
    need cc gcc libc6-dev
    if command -v cc >/dev/null 2>&1; then
        echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1 || packages="$packages libc6-dev"
    fi
    [ -e /etc/ssl/certs/ca-certificates.crt ] || packages="$packages ca-certificates"
    "$here/cargo.sh" --version >/dev/null 2>&1 || packages="$packages rustc-web cargo-web"
}

programs() {
    need qemu-x86_64 qemu-user
    need gzip gzip
    need xz xz-utils
    need mawk mawk
    need sqlite3 sqlite3
    need openssl openssl
    need python3 python3
    need redis-server redis-server redis-tools
    need valgrind valgrind
}

# A server and its checker, for the tests of metrics.
monitoring() {
    need prometheus prometheus
}

# To make the environment of the Python package, which brings its own tools.
environment() {
    need python3 python3 python3-venv
    if command -v python3 >/dev/null 2>&1; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
    fi
    need objdump binutils
}

linters() {
    case "$packages" in
    *cargo-web*) packages="$packages rust-web-clippy rustfmt-web" ;;
    *)
        "$here/cargo.sh" fmt --version >/dev/null 2>&1 || packages="$packages rustfmt-web"
        "$here/cargo.sh" clippy --version >/dev/null 2>&1 || packages="$packages rust-web-clippy"
        ;;
    esac
}

# To build kernels and to boot them; memweir runs there, too.
kernels() {
    need cc gcc libc6-dev
    need make make
    need flex flex
    need bison bison
    need bc bc
    need cpio cpio
    need xz xz-utils
    need gzip gzip
    need perl perl
    need patch patch
    need flock util-linux
    need qemu-system-x86_64 qemu-system-x86
    need busybox busybox-static
    # For the kernel's tools, and for memweir with its BPF scheduler.
    [ -e /usr/include/libelf.h ] || packages="$packages libelf-dev"
    [ -e /usr/include/zlib.h ] || packages="$packages zlib1g-dev"
    need pahole pahole
    # For three of the kernel's own tests.
    [ -e /usr/include/sys/capability.h ] || packages="$packages libcap-dev"
    [ -e /usr/include/numa.h ] || packages="$packages libnuma-dev"
    [ -e /usr/src/linux-source-6.12.tar.xz ] || packages="$packages linux-source-6.12"
}

case "${1-}" in
build) compiler ;;
docs) compiler && environment ;;
browser) need chromium chromium ;;
demo) compiler && programs ;;
fuzz) compiler && need c++ g++ ;;
bench) compiler && environment && programs && need git git ;;
kernel) compiler && kernels ;;
soak) compiler && kernels && need stress-ng stress-ng ;;
review)
    compiler && kernels && need sparse sparse && need spatch coccinelle &&
        need sphinx-build python3-sphinx &&
        need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    ;;
python) compiler && environment && need qemu-x86_64 qemu-user && need gzip gzip ;;
test)
    compiler && programs && environment && monitoring && need setpriv util-linux && need git git &&
        need tmux tmux &&
        linters
    ;;
deb) compiler && need git git && need dpkg-shlibdeps dpkg-dev ;;
screenshot) compiler && programs && need tmux tmux && packages="$packages python3-rich" ;;
engines)
    compiler && environment && need mpiexec openmpi-bin && need munged munge &&
        need slurmctld slurmctld && need slurmd slurmd && need sbatch slurm-client
    ;;
deb-test) need lintian lintian && need mmdebstrap mmdebstrap && need mke2fs e2fsprogs ;;
*)
    echo "usage: $0 build|demo|test|python|bench|docs|browser|fuzz|kernel|soak|review|deb|deb-test|screenshot|engines" >&2
    exit 2
    ;;
esac

[ -n "$packages" ] || exit 0
# Another may be at it.
install="apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends$packages"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing here; these are the Debian packages that have it:$packages" >&2
    exit 3
elif [ "$(id -u)" -ne 0 ]; then
    echo "some tools are missing; install them with:" >&2
    echo "  sudo $install" >&2
    exit 3
fi
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh machine may be missing or old.
# shellcheck disable=SC2086 # the packages are separate words
$install || { apt-get update && $install; }
