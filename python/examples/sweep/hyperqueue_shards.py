"""Runs a sweep in shards under HyperQueue, with a server and a worker of its own on this machine.

    python hyperqueue_shards.py mix.toml points 8

`hq submit --array=1-8` with `memweir sim ... --shard "$HQ_TASK_ID/8"` does the same on a server
that runs already.
"""

from __future__ import annotations

import sys

import memweir._command
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def main(scenario: str, out: str, shards: int) -> None:
    job = Job()
    for shard in range(1, shards + 1):
        job.program(
            [
                *(memweir._command.path(), "sim", scenario, "--out", out, "--resume"),
                *("--sweep", "cores=1..4", "--sweep", "seed=1..25", "--threads", "1"),
                *("--shard", f"{shard}/{shards}"),
            ]
        )
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=2))
        client = cluster.client()
        client.wait_for_jobs([client.submit(job)])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
