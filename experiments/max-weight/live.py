#!/usr/bin/env python3
"""Three batches of real programs under the policies, round by round, on this machine.

    live.py [--calibrated] MEMWEIR OUT [ROUNDS]

The machine should do nothing else. Rounds are twelve unless told otherwise. Writes OUT/live.csv, a
row for each run, and OUT/live-speeds.csv, a row for each job of each run under a policy. With
--calibrated, it calibrates the machine first, until that succeeds, and the files are
OUT/live-calibrated.csv, OUT/live-calibrated-speeds.csv and the calibration, OUT/live-platform.toml.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALIBRATIONS = 10


def batches(memweir, rounds, scratch, platform):
    """The name, directory, command and result of each batch."""
    demo, streams = ROOT / "demo", ROOT / "experiments" / "streaming-mix"
    yield "demo", demo, ["./run.sh", memweir], demo / "out" / "comparison.json"

    def compare(name, directory, policies, *jobs):
        result = f"{scratch}/{name}.json"
        command = ["memweir", "run", "--profile-first", "--repeat", rounds, "--compare", policies]
        command += ["--platform", platform] if platform else []
        command += ["--logs", f"{scratch}/logs", "--json", result, *jobs]
        return name, directory, command, Path(result)

    yield compare("streaming-mix", streams, "os,ideal-average,max-weight", "jobs.toml")
    primes = ["--each", "6", "--", "python3", "primes.py", "400000"]
    yield compare("primes", demo, "os,max-weight", *primes)


def calibrate(memweir, platform):
    """Calibrates the machine again as long as its host disturbs that."""
    for _ in range(CALIBRATIONS):
        if subprocess.run([memweir, "calibrate", "--platform", platform]).returncode == 0:
            return
    sys.exit(f"{CALIBRATIONS} calibrations were disturbed")


def main():
    words = [word for word in sys.argv[1:] if word != "--calibrated"]
    calibrated = len(words) < len(sys.argv) - 1
    memweir, out = Path(words[0]).resolve(), Path(words[1]).resolve()
    rounds = words[2] if len(words) > 2 else "12"
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{memweir.parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "ROUNDS": rounds}
        environment["XDG_DATA_HOME"] = scratch
        # Which part of a gain is due to the order of lengths alone.
        environment["POLICIES"] = "os,long-job-first,ideal-average,max-weight"
        platform = out / "live-platform.toml" if calibrated else None
        if platform:
            calibrate(memweir, platform)
            environment["PLATFORM"] = str(platform)
        turnarounds, speeds = [], []
        for name, directory, command, result in batches(memweir, rounds, scratch, platform):
            subprocess.run(command, cwd=directory, env=environment, check=True)
            for run in json.loads(result.read_text())["runs"]:
                row, report = [name, run["round"], run["variant"]], run["report"]
                failed = sum(job["exit_code"] != 0 for job in report["jobs"])
                turnarounds.append([*row, report["turnaround_s"], report["outcome"], failed])
                for job in report["jobs"]:
                    pair = job.get("predicted_speed"), job.get("measured_speed")
                    if run["variant"] != "os" and None not in pair:
                        speeds.append([*row, job["name"], *(f"{speed:.4f}" for speed in pair)])
    head = ["batch", "round", "policy"]
    name = "live-calibrated" if calibrated else "live"
    write(out / f"{name}.csv", [*head, "turnaround_s", "outcome", "failed_jobs"], turnarounds)
    write(out / f"{name}-speeds.csv", [*head, "job", "predicted_speed", "measured_speed"], speeds)


def write(path, head, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


main()
