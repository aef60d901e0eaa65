#!/usr/bin/env python3
"""Jobs that arrive over time, with lengths drawn from four distributions, under each objective.

    arrivals.py MEMWEIR OUT

Simulated on the machine of iabw, whose four cores are nine tenths busy. Each job is one of the
programs of first-runs.toml, and 40 s long in the mean. Writes a row for each run to
OUT/arrivals.csv, and prints the means of each policy over the seeds.
"""

import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

POLICIES = [
    "os",
    "long-job-first",
    "ideal-average",
    "max-weight",
    "max-weight:completion",
    "max-weight:slowdown",
]
KNOWLEDGE = ["alone", "nothing"]
SEEDS = range(1, 13)
JOBS, CORES, MEAN_S, BUSY = 64, 4, 40.0, 0.9
# Each with the mean 1.
PROGRAMS = """
410.bwaves 435.gromacs 437.leslie3d 445.gobmk 447.dealII 450.soplex 456.hmmer 459.GemsFDTD
465.tonto 470.lbm 471.omnetpp 483.xalancbmk
""".split()
LENGTHS = {
    "alike: lognormal, sigma 0.3": lambda draw: draw.lognormvariate(-0.045, 0.3),
    "exponential": lambda draw: draw.expovariate(1),
    "lognormal, sigma 1.5": lambda draw: draw.lognormvariate(-1.125, 1.5),
    "Pareto, shape 1.5, cut at 20": lambda draw: min(20, draw.paretovariate(1.5) / 3),
}
HEAD = """machine = "iabw"
policies = {policies}
target = "paper"
predictor = "phase"
optimum = "none"
knowledge = "{knowledge}"
seed = {seed}
"""
JOB = """
[[tasks]]
program = "{program}"
name = "job-{number}"
work_s = {work:.3f}
arrival_s = {arrival:.3f}
"""
COLUMNS = ["mean_response_s", "mean_slowdown", "largest_slowdown", "turnaround_s"]


def scenario(length, knowledge, seed):
    draw = random.Random(seed)
    text = HEAD.format(policies=json.dumps(POLICIES), knowledge=knowledge, seed=seed)
    arrival = 0.0
    for number in range(JOBS):
        work = max(1.0, MEAN_S * length(draw))
        program = draw.choice(PROGRAMS)
        text += JOB.format(number=number, program=program, work=work, arrival=arrival)
        arrival += draw.expovariate(BUSY * CORES / MEAN_S)
    return text


def simulated(memweir, text):
    """The figures of COLUMNS under each policy."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([memweir, "sim", file.name, "--json", "-"], stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(done.returncode)
    for run in json.loads(done.stdout)["points"][0]["runs"]:
        responses = [task["turnaround_s"] for task in run["tasks"]]
        slowdowns = [task["turnaround_s"] / task["alone_s"] for task in run["tasks"]]
        mean = statistics.mean
        yield run["policy"], [mean(responses), mean(slowdowns), max(slowdowns), run["turnaround_s"]]


def main():
    memweir, out = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    points = [(name, knows, seed) for name in LENGTHS for knows in KNOWLEDGE for seed in SEEDS]

    def run(point):
        name, knows, seed = point
        return list(simulated(memweir, scenario(LENGTHS[name], knows, seed)))

    sums = {}
    with (
        open(out / "arrivals.csv", "w", newline="") as file,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["lengths", "knowledge", "seed", "policy", *COLUMNS])
        for point, found in zip(points, pool.map(run, points)):
            for policy, figures in found:
                rows.writerow([*point, policy, *(f"{figure:.6f}" for figure in figures)])
                sums.setdefault((*point[:2], policy), []).append(figures)
            file.flush()
    for (name, knows, policy), figures in sums.items():
        means = " ".join(f"{statistics.mean(column):8.2f}" for column in zip(*figures))
        print(f"{name:30} {knows:8} {policy:24} {means}")


main()
