"""Runs a sweep on the executor of an engine, on this machine.

    python executors.py pool|dask|ray mix.toml points
    mpiexec -n 3 python -m mpi4py.futures executors.py mpi mix.toml points

On a cluster the executor is made of a client that connects to it; all else is the same. Whatever
has been killed goes on with the same command: points that are in the directory are not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import memweir

GRID = {"cores": "1..4", "seed": range(1, 26)}


@contextmanager
def pool() -> Iterator[Any]:
    with ProcessPoolExecutor(2) as executor:
        yield executor


@contextmanager
def dask() -> Iterator[Any]:
    from dask.distributed import Client, LocalCluster

    workers = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with workers as cluster, Client(cluster) as client:
        yield client.get_executor()


class RayExecutor(Executor):
    """An executor of Ray: its tasks have futures of the standard library."""

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        import ray

        future: Future[Any] = ray.remote(function).remote(*arguments, **options).future()
        return future


@contextmanager
def ray() -> Iterator[Any]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


@contextmanager
def mpi() -> Iterator[Any]:
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        yield executor


ENGINES = {"pool": pool, "dask": dask, "ray": ray, "mpi": mpi}


def main(engine: str, scenario: str, out: str) -> None:
    with ENGINES[engine]() as executor:
        result = memweir.sweep(scenario, GRID, executor=executor, out=out, points_per_task=10)
    print(f"{len(result.rows)} rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
