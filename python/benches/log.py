"""Measures the simulation of a cluster's job log.

    python/bench.sh log.py [JOBS]

Writes a seeded log of a month, 10,000 jobs without arguments, which keep 0.7 of 64 cores busy, and
prints the CPU time of simulations of it. Appends them to the file that MEMWEIR_ROWS names, as
`memweir_test_support::rows` does.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import memweir

CORES = 64
BUSY = 0.7
MONTH_S = 30 * 86_400

CASES: dict[str, dict[str, Any]] = {
    "month": {"quantum_ms": 10_000, "kernel.slice_ms": 1000},
    "hundredth": {"quantum_ms": 1000, "log.time_scale": 0.01},
}
POLICIES = ("os", "max-weight")


def log(jobs: int) -> str:
    """Returns a log in the Standard Workload Format."""
    draw = random.Random(7)
    drawn = []
    for _ in range(jobs):
        (cores,) = draw.choices([1, 2, 4, 8, 16, 32, 64], [50, 12, 13, 12, 8, 4, 1])
        drawn.append((cores, min(max(draw.lognormvariate(7.3, 1.6), 1.0), 3.0 * 86_400)))
    scale = BUSY * CORES * MONTH_S / sum(cores * length for cores, length in drawn)
    submitted = sorted(draw.uniform(0, MONTH_S) for _ in range(jobs))
    lines = ["; Version: 2.2"]
    for number, ((cores, length), at) in enumerate(zip(drawn, submitted), 1):
        length = max(1, int(length * scale))
        lines.append(
            f"{number} {int(at)} 0 {length} {cores} -1 -1 {cores} {length} -1 1 1 1 1 1 1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def record(figure: str, seconds: float) -> None:
    rows = os.environ.get("MEMWEIR_ROWS")
    if rows is not None:
        with open(rows, "a") as file:
            file.write(f'"{figure}",s,{seconds:.4f}\n')


def main(jobs: int = 10_000) -> None:
    with tempfile.TemporaryDirectory(prefix="memweir-") as directory:
        file = Path(directory) / "month.swf"
        file.write_text(log(jobs))
        scenario = {
            "machine": {
                "name": "node",
                "source": "assumed",
                "core_peak": 12e9,
                "nodes": [{"cores": CORES}],
                "memories": [{"name": "dram", "medium": "dram", "capacity": 200e9}],
            },
            "log": {"file": str(file), "bandwidth": {"mean": 1.5e9, "spread": 1.0}},
        }
        for (name, case), policy in itertools.product(CASES.items(), POLICIES):
            start = time.process_time()
            memweir.sim(scenario, {"policies": [policy], **case}, threads=1, progress=False)
            taken = time.process_time() - start
            record(f"{name}, {policy}", taken)
            print(f"{taken:7.2f} s  {policy}, {case}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
