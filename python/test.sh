#!/bin/sh
# Tests the Python package: makes a wheel of the command and the plugins in target/debug, installs
# it, checks the types and runs the tests. Arguments go to pytest.
set -eu

cd "$(dirname "$0")/.."
python/environment.sh
python/wheel.sh dev
venv=$PWD/target/python/venv
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    --force-reinstall target/python/dev-wheels/memweir-*.whl
cd python
"$venv/bin/mypy" src tests benches
# Files side by side: most tests run on one processor.
exec "$venv/bin/python" -m pytest -q --numprocesses auto --dist loadfile "$@"
