#!/bin/sh
# Builds every library and program without optimization, as the tests use them. With examples among
# the targets, Cargo gives dependencies the features that they have in tests; otherwise it would
# compile nearly all crates once more.
set -eu

cd "$(dirname "$0")/.."
exec scripts/cargo.sh build --workspace --locked --lib --bins --examples "$@"
