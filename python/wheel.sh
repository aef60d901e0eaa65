#!/bin/sh
# Builds the wheel of the Python package, with the command and its plugins inside, as the only one
# in target/python/wheels, or for `dev` in target/python/dev-wheels.
#
#   python/wheel.sh release|dev
#
# The command and the plugins must have been built with that profile, for `dev` the native module
# too. `dev` is for tests: the wheel runs on this machine, without the check of the libraries that
# it needs on others.
set -eu

cd "$(dirname "$0")/.."
case "${1-}" in
release) built=target/release out=target/python/wheels ;;
dev) built=target/debug out=target/python/dev-wheels ;;
*)
    echo "usage: $0 release|dev" >&2
    exit 2
    ;;
esac

# The command looks for its plugins in ../lib/memweir.
data=target/python/data
rm -rf "$data" "$out"
mkdir -p "$data/scripts" "$data/data/lib/memweir"
strip --strip-debug -o "$data/scripts/memweir" "$built/memweir"
for plugin in libmemweir_qemu_pmu.so libmemweir_preload.so; do
    strip --strip-debug -o "$data/data/lib/memweir/$plugin" "$built/$plugin"
done
chmod 755 "$data/scripts/memweir"

PATH=$PWD/target/python/venv/bin:$PATH
export PATH
if [ "$1" = dev ]; then
    # maturin would compile nearly all crates once more, with the features that they have for the
    # module alone.
    tree=target/python/dev-wheel
    rm -rf "$tree"
    mkdir -p "$tree" "$out"
    cp -r python/src/memweir "$tree"
    strip --strip-debug -o "$tree/memweir/_native.abi3.so" "$built/libmemweir_python.so"
    information=$(cd python && maturin pep517 write-dist-info --interpreter python3 \
        --metadata-directory "../$tree")
    mv "$data" "$tree/${information%.dist-info}.data"
    exec wheel pack --dest-dir "$out" "$tree"
fi
# The wheel names the oldest C library on which it runs. maturin looks at the module alone, and the
# command may need a newer one.
newest=$(objdump -T "$data/scripts/memweir" "$data"/data/lib/memweir/*.so |
    sed -n 's/.*GLIBC_2\.\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
cd python
exec maturin build --quiet --locked --release --strip \
    --compatibility "manylinux_2_$newest" --out "../$out"
