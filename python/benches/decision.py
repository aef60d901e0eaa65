"""Measures the time that a policy in Python adds to each decision.

    target/python/venv/bin/python python/benches/decision.py

Runs the same batch under `round-robin` in Rust and in Python, on one thread, in turn. The decisions
are the same, so the difference in time is that of the calls, the views and the answers.

    target/python/venv/bin/python python/benches/decision.py COMMAND

Measures the same of policies that a command asks, by the example `decision_cost` of `memweir-run`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping

import memweir
from memweir import _serve
from memweir.policy import Candidate, Policy, View

ROUNDS = 15
JOBS = (8, 16, 64)


class RoundRobin:
    """`round-robin`, a second time."""

    name = "in-order"

    def select(self, view: View) -> Iterable[Candidate]:
        return view.queue[: view.cores]


class Attentive(RoundRobin):
    """The same, with a look at the demand of each job."""

    name = "attentive"

    def select(self, view: View) -> Iterable[Candidate]:
        _ = sum(job.demand for job in view.queue)
        return super().select(view)


def seconds(scenario: Mapping[str, object], policy: str | Policy) -> tuple[float, int]:
    """Returns the wall time of a simulation, and its quanta."""
    start = time.perf_counter()
    result = memweir.sim(scenario, policies=[policy], threads=1, progress=False)
    return time.perf_counter() - start, result.rows[0]["quanta"]


def over_sockets(command: str) -> None:
    """Prints the times of decisions that the command asks these policies for."""
    for policy in (RoundRobin(), Attentive()):
        with _serve.served([(policy.name, policy)]) as (_, program):
            subprocess.run([command, program], check=True)


def in_process() -> None:
    print("jobs  policy     added per quantum, median of", ROUNDS, "rounds")
    for jobs in JOBS:
        tasks = [{"program": "433.milc", "instances": jobs, "work_s": 30}]
        scenario = {"machine": "iabw", "policies": ["os"], "optimum": "none", "tasks": tasks}
        for policy in (RoundRobin(), Attentive()):
            added = []
            for _ in range(ROUNDS):
                rust, quanta = seconds(scenario, "round-robin")
                python, same = seconds(scenario, policy)
                assert same == quanta, "the decisions differ"
                added.append((python - rust) / quanta)
            print(f"{jobs:4}  {policy.name:9}  {1e6 * statistics.median(added):6.1f} us")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        over_sockets(sys.argv[1])
    else:
        in_process()
