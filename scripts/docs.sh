#!/bin/sh
# Makes the site, target/book: the manual, the API documentation of Rust and Python below api/, and
# checks every link of the manual's pages. Needs mdBook in target/tools.
set -eu

cd "$(dirname "$0")/.."
book=target/book
cargo=scripts/cargo.sh

target/tools/bin/mdbook build docs
$cargo doc --workspace --no-deps --locked
mkdir -p $book/api/rust
# Where there are no links, some directories are there already.
cp -al target/doc/. $book/api/rust 2>/dev/null || cp -a target/doc/. $book/api/rust

# The native module is built alone, without the command that a wheel contains.
python/environment.sh
$cargo build --locked -p memweir-python
package=target/python/docs/memweir
rm -rf target/python/docs
mkdir -p target/python/docs
cp -r python/src/memweir target/python/docs
cp target/debug/libmemweir_python.so $package/_native.abi3.so
PYTHONPATH=target/python/docs target/python/venv/bin/python -m pdoc --docformat google \
    --no-show-source --template-directory python/pdoc --output-directory $book/api/python memweir

exec python3 scripts/check-site.py $book
