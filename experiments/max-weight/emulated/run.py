#!/usr/bin/env python3
"""Nineteen jobs of twelve real programs under the policies, on emulated machines of 4 and 8 cores.

    run.py MEMWEIR OUT

Each job is emulated alone first, and its time and bandwidth are declared to the batch, as a profile
would tell them. Times are virtual, so that two runs give the same figures. But the jobs that happen
to run at the same time depend on the order of all jobs, so the batch runs in eight orders, drawn
beforehand. Writes a row for each turnaround to OUT/emulated.csv, and prints the difference of each
policy from `os`, with the 95 % interval of the mean over the orders.
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
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
MACHINES = ["four-cores", "eight-cores"]
POLICIES = ["os", "long-job-first", "ideal-average", "max-weight"]
ORDERS = 8
# Student's t for seven degrees of freedom.
QUANTILE = 2.365
QUANTUM = "10ms"
# Perl would seed its hashes from /dev/urandom, which is the host's.
ENVIRONMENT = '{ PERL_HASH_SEED = "0" }'
# The environment of memweir and its jobs. Sorting takes longer in some locales than in others.
BARE = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C"}
# `python3` may be a script that depends on further variables.
PYTHON = os.path.realpath(sys.executable)
# Counts the occurrences of one byte value after another.
COUNT = "b = bytes(24 << 20); print([b.count(i) for i in range(1, {})])"

# Streams of memory, sorts, compressors, ciphers, interpreters: some live in the caches, some on the
# bus, and their lengths differ.
JOBS = {
    "gzip": ["gzip", "-6", "-c", "text"],
    "xz": ["xz", "-0", "-T1", "-c", "text-half"],
    "zstd": ["zstd", "-3", "-q", "--single-thread", "-c", "text"],
    "bzip2": ["bzip2", "-1", "-c", "text-half"],
    "sort": ["sort", "--parallel=1", "records"],
    "sort-keys": ["sort", "--parallel=1", "-k", "2", "records"],
    "awk": ["awk", "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print n[w], w }", "text"],
    "grep": ["grep", "-E", "([aeiou][a-z]){3,}"] + 8 * ["text"],
    "sed": ["sed", "-E", "s/([a-z]+) ([a-z]+)/\\2 \\1/", "text"],
    "sqlite3": ["sqlite3", ":memory:", ".read readings.sql"],
    "openssl": ["openssl", "dgst", "-sha256", "text", "text", "text", "text"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 200003} += $_ for 1..400000; print scalar(keys %h)"],
    "perl-sort": ["perl", "-e", "my @x = map { ($_ * 7919) % 1000003 } 1..60000; @x = sort { $a <=> $b } @x; print $x[0]"],
    "count-1": [PYTHON, "-S", "-c", COUNT.format(5)],
    "count-2": [PYTHON, "-S", "-c", COUNT.format(9)],
    "copy-1": [PYTHON, "-S", "-c", "b = bytes(16 << 20)\nfor i in range(20): b = bytearray(b)"],
    "copy-2": [PYTHON, "-S", "-c", "b = bytes(16 << 20)\nfor i in range(40): b = bytearray(b)"],
    "reverse-1": [PYTHON, "-S", "-c", "x = list(range(400000))\nfor i in range(60): x.reverse()"],
    "reverse-2": [PYTHON, "-S", "-c", "x = list(range(800000))\nfor i in range(90): x.reverse()"],
}


def inputs(directory):
    source = random.Random(7)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(source.choices(letters, k=source.randint(2, 9))) for _ in range(4000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    lines = [" ".join(source.choices(words, weights, k=12)) for _ in range(60_000)]
    (directory / "text").write_text("\n".join(lines) + "\n")
    (directory / "text-half").write_text("\n".join(lines[:15_000]) + "\n")
    rows = [f"{source.getrandbits(64):016x} {source.getrandbits(96):024x}" for _ in range(60_000)]
    (directory / "records").write_text("\n".join(rows) + "\n")
    values = ",".join(f"({i % 997},{source.random():.6f})" for i in range(20_000))
    (directory / "readings.sql").write_text(
        "create table r(s integer, v real);\n"
        f"insert into r values {values};\n"
        "insert into r select s + 1, v * 2 from r; insert into r select s + 2, v * 3 from r;\n"
        "select s, avg(v) from r group by s order by 2 desc limit 5;\n"
    )


def emulate(memweir, file, *arguments):
    """The report of an emulation of this jobs file. Several may run at once, each with its logs."""
    directory = file.parent
    command = [memweir, "emulate", "--quantum", QUANTUM, "--logs", file.stem, *arguments, file]
    done = subprocess.run(command, cwd=directory, env=BARE, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return json.loads(done.stdout)


def declared(memweir, directory, machine):
    """The text of each job in a jobs file, with its time and bandwidth alone."""
    jobs = []
    for name, command in JOBS.items():
        file = directory / f"{machine.stem}-{name}.toml"
        job = f'[[jobs]]\nname = "{name}"\ncommand = {json.dumps(command)}\nenv = {ENVIRONMENT}\n'
        file.write_text(job)
        report = emulate(memweir, file, "--machine", machine, "--policy", "os", "--json", "-")
        alone = report["jobs"][0]
        seconds = report["turnaround_s"]
        reads = 64 * alone["memory_reads"] / seconds
        writes = 64 * alone["memory_writes"] / seconds
        bandwidth = (reads + writes) / 1e9
        print(f"{machine.stem}  {name:12} {seconds:6.3f} s {bandwidth:6.2f} GB/s", flush=True)
        jobs.append(
            f"{job}expected_time_s = {seconds:.6f}\n"
            f"read_bandwidth = {reads:.1f}\nwrite_bandwidth = {writes:.1f}\n"
        )
    return jobs


def turnarounds(memweir, directory, machine, jobs, order):
    """The turnaround of the batch under each policy, its jobs in the order of this number."""
    jobs = random.Random(order).sample(jobs, len(jobs))
    file = directory / f"{machine.stem}-{order}.toml"
    file.write_text("\n".join(jobs))
    policies = ",".join(POLICIES)
    report = emulate(memweir, file, "--machine", machine, "--compare", policies, "--json", "-")
    return [variant["mean_s"] for variant in report["variants"]]


def summary(times):
    """A line for each policy: how its turnarounds differ from those of `os` in the same orders."""
    base = [row[0] for row in times]
    yield f"os  {statistics.mean(base):.3f} s"
    for policy, column in zip(POLICIES[1:], list(zip(*times))[1:]):
        gains = [100 * (time / other - 1) for time, other in zip(column, base)]
        error = QUANTILE * statistics.stdev(gains) / len(gains) ** 0.5
        mean = statistics.mean(gains)
        yield f"{policy}  {mean:+.1f} % ({mean - error:+.1f} to {mean + error:+.1f})"


def main():
    memweir, out = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(out / "emulated.csv", "w", newline="") as file,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        directory = Path(scratch)
        inputs(directory)
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["machine", "order", "policy", "turnaround_s"])
        for machine in (HERE / f"{name}.toml" for name in MACHINES):
            jobs = declared(memweir, directory, machine)
            run = partial(turnarounds, memweir, directory, machine, jobs)
            times = []
            for order, row in enumerate(pool.map(run, range(ORDERS))):
                rows.writerows([machine.stem, order, *pair] for pair in zip(POLICIES, row))
                file.flush()
                times.append(row)
            print(f"{machine.stem}, {ORDERS} orders:", *summary(times), sep="\n  ", flush=True)


main()
