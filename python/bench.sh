#!/bin/sh
# Measures with one of python/benches, on the wheel of the release build.
#
#   python/bench.sh FILE [ARGUMENT...]
set -eu

cd "$(dirname "$0")/.."
python/environment.sh
python/wheel.sh release
venv=target/python/venv
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    --force-reinstall target/python/wheels/memweir-*.whl
bench=python/benches/$1
shift
exec "$venv/bin/python" "$bench" "$@"
