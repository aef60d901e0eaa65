#!/usr/bin/env python3
"""Measures the figures of docs/performance.md, and draws its tables from the measurements.

    scripts/performance.py measure BENCH...  runs benches: rows in evidence/performance/BENCH.csv
    scripts/performance.py draw [--check]    writes the tables; --check fails if one would change
    scripts/performance.py list              the benches, and when each ran

evidence/performance/tables.toml lists the benches and the rows of each table. A row has a template
of its measured cell, in which `{0.median}` is the median of the first of its figures, `{1.most}`
the largest measurement of the second (see `Figure`).
"""

import csv
import datetime
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "evidence" / "performance"
PAGE = ROOT / "docs" / "performance.md"


class Figure:
    """The measurements of a figure, in the unit of the table."""

    def __init__(self, values, scale):
        self.values = sorted(value * scale for value in values)

    def percentile(self, share):
        return self.values[round(share * (len(self.values) - 1))]

    median = property(lambda self: statistics.median(self.values))
    p99 = property(lambda self: self.percentile(0.99))
    most = property(lambda self: self.values[-1])


def read(bench):
    """The measurements of a bench, by figure."""
    figures = {}
    with open(EVIDENCE / f"{bench}.csv") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            figures.setdefault(row["figure"], []).append(float(row["value"]))
    return figures


def criterion(started):
    """Rows of Criterion's measurements since `started`, by sample: the nanoseconds of one iteration,
    or the elements per second of a bench that declares the elements of an iteration."""
    results = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "criterion"
    for file in sorted(results.glob("**/new/sample.json")):
        if file.stat().st_mtime < started:
            continue
        about = json.loads(file.with_name("benchmark.json").read_text())
        name = about["full_id"]
        sample = json.loads(file.read_text())
        elements = (about.get("throughput") or {}).get("Elements")
        for count, nanos in zip(sample["iters"], sample["times"]):
            if elements is None:
                yield name, "ns", nanos / count
            else:
                yield name, "per s", 1e9 * elements * count / nanos


def machine():
    """The machine, as the head of a file of rows has it."""
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", info)
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    gibibytes = int(memory[1]) / 2**20
    return (
        f"{os.cpu_count()} x {model[1] if model else platform.machine()}, "
        f"{gibibytes:.0f} GiB, Linux {platform.release().split('-')[0]}"
    )


def measure(tables, benches):
    for name in benches:
        bench = tables["bench"][name]
        rows = EVIDENCE / f"{name}.csv"
        fresh = ROOT / "target" / rows.name
        started = datetime.datetime.now(datetime.timezone.utc)
        version = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        with open(fresh, "w") as file:
            file.write(f"# {bench['command']}\n# {started:%Y-%m-%d}, {machine()}, {version}\n")
            file.write("figure,unit,value\n")
        environment = {**os.environ, "MEMWEIR_ROWS": str(fresh)}
        done = subprocess.run(
            ["sh", "-c", bench["command"]], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL
        )
        # A bench that judges fails for a figure over its budget, which is a figure, too.
        if done.returncode != 0 and not bench.get("judges", False):
            sys.exit(f"{bench['command']}: exit code {done.returncode}; {rows} is as it was")
        with open(fresh, "a", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            for figure, unit, value in criterion(started.timestamp()):
                out.writerow([figure, unit, f"{value:.4f}"])
        count = len(fresh.read_text().splitlines()) - 3
        if count == 0:
            sys.exit(f"{bench['command']}: measured nothing; {rows} is as it was")
        fresh.rename(rows)
        print(f"{name}: {count} rows")


def cell(row, measured):
    """The measured cell of a row, bold where any of its figures misses the budget."""
    if "figures" not in row:
        return row["measured"]
    bench = measured.setdefault(row["bench"], read(row["bench"]))
    scale = row.get("scale", 1.0)
    try:
        figures = [Figure(bench[name], scale) for name in row["figures"]]
    except KeyError as error:
        known = ", ".join(sorted(bench))
        sys.exit(f"tables.toml: {row['bench']}.csv has no figure {error}, but {known}")
    text = row["measured"].format(*figures)
    judged = [getattr(figure, row.get("judged", "median")) for figure in figures]
    at_most, at_least = row.get("at_most", math.inf), row.get("at_least", -math.inf)
    return text if all(at_least <= value <= at_most for value in judged) else f"**{text}**"


def draw(tables, check):
    page = PAGE.read_text()
    measured = {}
    for name, rows in tables["table"].items():
        lines = ["| figure | budget | measured |", "|---|---|---|"]
        for row in rows:
            budget = f"{row['budget']} " if "budget" in row else ""
            lines.append(f"| {row['what']} | {budget}| {cell(row, measured)} |")
        begin, end = f"<!-- {name}: scripts/performance.py -->", "<!-- end -->"
        pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
        table = "\n".join([begin, *lines, "", end])
        page, found = pattern.subn(lambda _, table=table: table, page)
        if found != 1:
            sys.exit(f"{PAGE.name} has {found} places for the table {name}: {begin} ... {end}")
    if check and page != PAGE.read_text():
        sys.exit(f"{PAGE.name} is not what the rows say: run scripts/performance.py draw")
    if not check:
        PAGE.write_text(page)


def main(arguments):
    tables = tomllib.loads((EVIDENCE / "tables.toml").read_text())
    match arguments:
        case ["measure", first, *more]:
            unknown = [name for name in (first, *more) if name not in tables["bench"]]
            if unknown:
                sys.exit(f"no bench {', '.join(unknown)}; there are {', '.join(tables['bench'])}")
            measure(tables, (first, *more))
        case ["draw"] | ["draw", "--check"]:
            draw(tables, arguments[1:] == ["--check"])
        case ["list"]:
            for name, bench in tables["bench"].items():
                file = EVIDENCE / f"{name}.csv"
                when = file.read_text().splitlines()[1][2:] if file.exists() else "no rows"
                print(f"{name:<12} {when}\n             {bench['command']}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
