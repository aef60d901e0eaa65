#!/bin/sh
# Installs, upgrades, removes and purges the package of packaging/deb.sh in a clean Debian 12 tree,
# and checks it with lintian. It must be run by root, and takes Debian's packages from the mirror of
# this machine.
#
#   packaging/deb-test.sh [PACKAGE]    by default the one in target/deb
set -eu

cd "$(dirname "$0")/.." || exit
package=${1-$(ls target/deb/memweir_*.deb)}
work=$(mktemp -d)
tree=$work/tree
trap 'umount "$tree/proc" 2>/dev/null || true; rm -rf "$work"' EXIT

step() { echo "deb-test: $*"; }
inside() { chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
absent() { [ ! -e "$tree/$1" ] || { echo "deb-test: $1 is left" >&2; exit 1; }; }

step lintian
lintian --fail-on error,warning "$package"

step tree
mmdebstrap --quiet --variant=minbase --include=passwd,systemd-standalone-sysusers bookworm "$tree"
mount -t proc proc "$tree/proc"

step install
cp "$package" "$tree/memweir.deb"
inside dpkg --install /memweir.deb
inside getent group memweir >/dev/null
inside memweir --version
inside memweir sim --example >/dev/null
inside memweir doctor >/dev/null
inside sh -c 'memweir daemon --cores 1 >/daemon.log 2>&1 & echo $! >/daemon.pid'
inside sh -c 'i=0; until memweir status >/dev/null 2>&1; do
    i=$((i + 1)); [ $i -lt 100 ] || { cat /daemon.log; exit 1; }; sleep 0.1; done'
[ "$(inside memweir submit --parsable --wait -- true)" = 1 ]
inside sh -c 'kill "$(cat /daemon.pid)"; while kill -0 "$(cat /daemon.pid)" 2>/dev/null; do
    sleep 0.1; done'

step upgrade
dpkg-deb --raw-extract "$package" "$work/newer"
sed -i 's/^Version: .*/&.1/' "$work/newer/DEBIAN/control"
dpkg-deb --build --root-owner-group "$work/newer" "$tree/newer.deb" >/dev/null
inside dpkg --install /newer.deb
inside dpkg-query -W memweir
[ -e "$tree/var/lib/memweir/queue.sqlite" ] || { echo "deb-test: the queue is lost" >&2; exit 1; }

step remove
inside dpkg --remove memweir
absent usr/bin/memweir
absent usr/lib/memweir
[ -e "$tree/var/lib/memweir/queue.sqlite" ] || { echo "deb-test: the queue is lost" >&2; exit 1; }

step purge
inside dpkg --purge memweir
absent var/lib/memweir
absent usr/share/doc/memweir
step passed
