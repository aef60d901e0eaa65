#!/usr/bin/env python3
"""Seventeen jobs of ten real programs under the policies, on emulated machines of 4 and 8 cores.

    run.py MEMWEIR OUT

Each job is emulated alone first, and its time and bandwidth are declared to the batch, as a profile
would tell them. Times are virtual, so that two runs give the same figures. Writes the comparisons
as OUT/MACHINE.json and prints the turnarounds.
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
POLICIES = "os,long-job-first,ideal-average,max-weight"
QUANTUM = "10ms"
# Perl would seed its hashes from /dev/urandom, which is the host's.
ENVIRONMENT = '{ PERL_HASH_SEED = "0" }'

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
    "sqlite3": ["sqlite3", ":memory:", ".read readings.sql"],
    "openssl": ["openssl", "dgst", "-sha256", "text", "text", "text", "text"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 200003} += $_ for 1..400000; print scalar(keys %h)"],
    "perl-sort": ["perl", "-e", "my @x = map { ($_ * 7919) % 1000003 } 1..60000; @x = sort { $a <=> $b } @x; print $x[0]"],
    "count-1": ["python3", "-S", "-c", "b = bytes(24 << 20); print([b.count(i) for i in range(1, 5)])"],
    "count-2": ["python3", "-S", "-c", "b = bytes(24 << 20); print([b.count(i) for i in range(1, 9)])"],
    "copy-1": ["python3", "-S", "-c", "b = bytes(16 << 20)\nfor i in range(20): b = bytearray(b)"],
    "copy-2": ["python3", "-S", "-c", "b = bytes(16 << 20)\nfor i in range(40): b = bytearray(b)"],
    "reverse-1": ["python3", "-S", "-c", "x = list(range(400000))\nfor i in range(60): x.reverse()"],
    "reverse-2": ["python3", "-S", "-c", "x = list(range(800000))\nfor i in range(90): x.reverse()"],
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


def emulate(memweir, directory, *arguments):
    command = [memweir, "emulate", "--quantum", QUANTUM, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr}")
    return json.loads(done.stdout)


def declared(memweir, directory, machine):
    """The jobs file, with the time and the bandwidth of each job alone."""
    text = ""
    for name, command in JOBS.items():
        jobs = directory / "alone.toml"
        job = f'name = "{name}"\ncommand = {json.dumps(command)}\nenv = {ENVIRONMENT}\n'
        jobs.write_text(f"[[jobs]]\n{job}")
        report = emulate(memweir, directory, "--machine", machine, "--policy", "os", "--json", "-", jobs)
        job = report["jobs"][0]
        seconds = report["turnaround_s"]
        reads = 64 * job["memory_reads"] / seconds
        writes = 64 * job["memory_writes"] / seconds
        print(f"  {name:12} {seconds:6.3f} s {(reads + writes) / 1e9:6.2f} GB/s", flush=True)
        text += jobs.read_text() + (
            f"expected_time_s = {seconds:.6f}\n"
            f"read_bandwidth = {reads:.1f}\nwrite_bandwidth = {writes:.1f}\n\n"
        )
    return text


def main():
    memweir, out = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        inputs(directory)
        for machine, name in [(HERE / f"{name}.toml", name) for name in ("four-cores", "eight-cores")]:
            print(name, flush=True)
            jobs = directory / "jobs.toml"
            jobs.write_text(declared(memweir, directory, machine))
            arguments = ["--machine", machine, "--compare", POLICIES, "--json", "-", jobs]
            report = emulate(memweir, directory, *arguments)
            (out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
            for variant in report["variants"]:
                print(f"  {variant['variant']:16} {variant['turnaround_s']}")


main()
