#!/bin/sh
# Makes the environment in which the Python package is built and tested, target/python/venv, of the
# packages in requirements.txt. Leaves it alone if they have not changed.
set -eu

cd "$(dirname "$0")/.."
venv=target/python/venv
stamp=$venv/requirements.txt

if ! cmp -s python/requirements.txt "$stamp"; then
    rm -rf "$venv"
    mkdir -p target/python
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --requirement python/requirements.txt
    cp python/requirements.txt "$stamp"
fi
