"""Measures what a sweep of short points in processes costs beside one process.

    target/python/venv/bin/python python/benches/sweep.py [POINTS [WORKERS]]

Runs the same points, 10,000 without arguments, on one thread of this process, then in a pool of
processes that write into a directory, and in as many shards of the command. Efficiency is the time
of one process over that of the others times their number. Reading the scenario at every point, and
at those of one shard of a thousand, is measured apart.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import memweir
from memweir import _command

SCENARIO = """
machine = "iabw"
policies = ["os", "ideal-average"]
optimum = "none"

[[tasks]]
program = "433.milc"
instances = 4
work_s = 20

[[tasks]]
program = "444.namd"
instances = 4
work_s = 20
"""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(points: int = 10_000, workers: int = os.cpu_count() or 1) -> None:
    directory = tempfile.TemporaryDirectory(prefix="memweir-")
    with directory as place:
        file = Path(place) / "mix.toml"
        file.write_text(SCENARIO)
        grid = {"seed": f"1..{points}"}
        command = [_command.path(), "sim", str(file), "--sweep", f"seed=1..{points}"]

        def one() -> object:
            return memweir.sim(file, sweep=grid, threads=1, progress=False)

        def pool() -> object:
            with ProcessPoolExecutor(workers) as executor:
                return memweir.sweep(
                    file, grid, executor=executor, out=Path(place) / "pool", progress=False
                )

        def shards() -> object:
            options = ["--out", str(Path(place) / "shards"), "--threads", "1", "--shard"]
            shards = [[*command, *options, f"{n}/{workers}"] for n in range(1, workers + 1)]
            started = [subprocess.Popen(shard, stdout=subprocess.DEVNULL) for shard in shards]
            ended = [process.wait() for process in started]
            assert not any(ended), "a shard failed"
            return ended

        def check(*options: str) -> object:
            listing = [*command, "--list-points", *options]
            return subprocess.run(listing, stdout=subprocess.DEVNULL, check=True)

        alone = seconds(one)
        print(f"{points} points in one process: {alone:.1f} s, {1e3 * alone / points:.2f} ms each")
        print(f"reading the scenario at every point: {seconds(check):.1f} s")
        shard = seconds(lambda: check("--shard", "1/1000"))
        print(f"reading it for one shard of a thousand: {shard:.1f} s")
        for name, work in (("pool of processes", pool), ("shards of the command", shards)):
            taken = seconds(work)
            efficiency = 100 * alone / (workers * taken)
            print(f"{name}, {workers}: {taken:.1f} s, efficiency {efficiency:.0f} %")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
