#!/bin/sh
# Runs colored programs on Debian 12's own kernel in a QEMU guest without KVM: guest/recycle.sh,
# about a minute.
#
#   stock.sh PACKAGE BUILD      for example linux-image-6.1.0-56-amd64 target/release
#
# The kernel's package is fetched, not installed. Everything lies below target/kernel
# (KERNEL_TEST_DIR).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$(dirname "$here")")
work=${KERNEL_TEST_DIR-$top/target/kernel}
[ $# -eq 2 ] || {
    sed -n 's/^# \{0,1\}//; 2,6p' "$0" >&2
    exit 2
}
package=$1 build=$(cd "$2" && pwd)

die() {
    echo "kernel-test: $*" >&2
    exit 1
}

. "$here/lib/guest.sh"

mkdir -p "$work"
scratch=$(mktemp -d "$work/stock.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

fetched=$work/package/$package
if [ ! -d "$fetched/boot" ]; then
    mkdir -p "$fetched"
    (cd "$fetched" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb .) \
        >"$fetched/log" 2>&1 ||
        die "the package $package cannot be had here (see $fetched/log)"
fi

# with_libraries ROOT FILE...: copies dynamic programs, with their libraries, into ROOT.
with_libraries() {
    root=$1
    shift
    for file in "$@" $(ldd "$@" | grep -o '/[^ :]*' | sort -u); do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
}

more=$scratch/more
with_libraries "$more" /usr/bin/sort /usr/bin/perl /usr/bin/python3
python=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
mkdir -p "$more$python/encodings" "$more/usr/bin"
cp "$python"/*.py "$more$python/"
cp "$python"/encodings/*.py "$more$python/encodings/"
with_libraries "$more" "$build/memweir"
rm "$more$build/memweir"
for file in memweir libmemweir_preload.so; do
    strip -o "$more/usr/bin/$file" "$build/$file"
done
cp "$top/crates/core/data/maps/i7-860.toml" "$more/map.toml"
cpio=$scratch/stock.cpio.gz
make_initramfs "$cpio" "$here/guest/recycle.sh"
(cd "$more" && find . | cpio -o -H newc -R 0:0 --quiet) | gzip -1 >>"$cpio"

boot stock "$(echo "$fetched"/boot/vmlinuz-*)" "-initrd $cpio" 2 900 quiet
grep -vE '^(GUEST|\[)' "$log"
echo "kernel-test: $verdict, $taken, log $log"
[ "$verdict" = pass ]
