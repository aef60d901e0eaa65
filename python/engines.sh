#!/bin/sh
# Tests sweeps on the engines that people have: Dask, Ray, MPI, HyperQueue and Slurm, each as it
# runs on one machine. `python/wheel.sh dev` has built the wheel. Arguments go to pytest.
set -eu

cd "$(dirname "$0")/.."
venv=target/python/engines
if ! cmp -s python/engines/requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --requirement python/engines/requirements.txt
    cp python/engines/requirements.txt "$venv/requirements.txt"
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
    --force-reinstall target/python/dev-wheels/memweir-*.whl
PATH=$PWD/$venv/bin:$PATH
export PATH
exec "$venv/bin/python" -m pytest -q --rootdir python/engines -c /dev/null python/engines "$@"
