#!/usr/bin/env python3
"""Measures the figures of docs/performance.md, judges them, and draws its tables.

    scripts/performance.py measure [--dirty] BENCH...  runs benches: evidence/performance/BENCH.csv
    scripts/performance.py bench [BENCH...] [-- OPTION...]  runs benches (all), and judges them;
                                             the options are Criterion's
    scripts/performance.py judge DIRECTORY   judges the files of rows there
    scripts/performance.py draw [--check]    writes the tables; --check fails if one would change
    scripts/performance.py list              the benches, and when each ran

`measure` takes its rows from the committed tree: with uncommitted changes it needs `--dirty`.
`bench` and `judge` fail for a figure beyond its budget, or for a known miss beyond its ceiling, and
with CI=true for one that was not measured. evidence/performance/tables.toml has all benches,
budgets and ceilings.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from figures import Row, read

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "evidence" / "performance"
SCRATCH = ROOT / "target" / "performance"
PAGE = ROOT / "docs" / "performance.md"
WIDTH = 100


def criterion(started):
    """Rows of Criterion's measurements since `started`, by sample: the nanoseconds of an iteration,
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
                yield f'"{name}",ns,{nanos / count:.4f}'
            else:
                yield f'"{name}",per s,{1e9 * elements * count / nanos:.4f}'


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


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def version():
    """The commit, and whether the tree differs from it other than by rows and what they draw."""
    commit = git("rev-parse", "--short", "HEAD")
    if not commit:
        return "no commit-dirty"
    own = (":(exclude)evidence/performance/*.csv", ":(exclude)docs/performance.md")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *own)
    return f"{commit}-dirty" if changed else commit


def run(bench, rows, commit, options=()):
    """Runs a bench and writes its rows; returns the reason if there are none."""
    values = {name: os.environ.get(name, value) for name, value in bench.get("set", {}).items()}
    words = [*(f"{name}={value}" for name, value in values.items()), bench["command"]]
    command = " ".join([*words, *(["--", *options] if bench.get("criterion") and options else [])])
    started = datetime.datetime.now(datetime.timezone.utc)
    fresh = SCRATCH / f"{rows.name}.new"
    SCRATCH.mkdir(parents=True, exist_ok=True)
    head = f"# {command}\n# {started:%Y-%m-%d}, {machine()}, {commit}\nfigure,unit,value\n"
    fresh.write_text(head)
    environment = {**os.environ, "MEMWEIR_ROWS": str(fresh)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        return f"{command}: exit code {done.returncode}"
    with open(fresh, "a") as file:
        file.writelines(f"{row}\n" for row in criterion(started.timestamp()))
    if fresh.read_text() == head:
        return f"{command}: measured nothing"
    fresh.rename(rows)
    return None


def run_all(tables, benches, directory, commit, options=()):
    """Runs benches, each also if one before it failed; returns the reasons of those that did."""
    reasons = []
    for name in benches:
        print(f"performance: {name}", flush=True)
        rows = directory / f"{name}.csv"
        reasons.append(run(tables["bench"][name], rows, commit, options))
    return [reason for reason in reasons if reason]


def table_rows(tables):
    """The rows of all tables; refuses what contradicts itself."""
    drawn, named = {}, set()
    for table, rows in tables["table"].items():
        drawn[table] = []
        for row in rows:
            try:
                row = Row(**row)
            except (TypeError, ValueError) as error:
                sys.exit(f"tables.toml: table {table}, `{row.get('what')}`: {error}")
            if row.bench not in tables["bench"]:
                sys.exit(f"tables.toml: `{row.what}`: no bench {row.bench}")
            drawn[table].append(row)
            named.add(row.reason)
    named.discard(None)
    if named != tables["reason"].keys():
        odd = ", ".join(sorted(named ^ tables["reason"].keys()))
        sys.exit(f"tables.toml: reasons without a row, or of a row but without a text: {odd}")
    return drawn


def measured_in(directory, benches):
    """The measurements of those of these benches that have a file there."""
    files = {name: directory / f"{name}.csv" for name in benches}
    return {name: read(file) for name, file in files.items() if file.exists()}


def judge(tables, directory, benches):
    """Prints the verdicts of the rows of these benches; returns the number of those that fail."""
    counts, failing, measured = {}, 0, measured_in(directory, benches)
    must = os.environ.get("CI") == "true"
    print(f"\n{'verdict':<12} {'budget':>16} {'ceiling':>16}  measured: figure")
    for table, rows in table_rows(tables).items():
        rows = [row for row in rows if row.bench in benches]
        if rows:
            print(f"{table}:")
        for row in rows:
            figures = row.measurements(measured.get(row.bench, {}))
            if figures is None:
                said, text, fails = "not measured", "", must
            else:
                judged, text = row.verdict(figures), f"{row.text(figures)}: "
                said, fails = judged.value, judged.fails
            kept = said == "kept" and row.tolerated is not None
            note = " (remove its ceiling if no host misses it)" if kept else ""
            ends = f"{row.budget_cell():>16} {row.tolerated_cell():>16}"
            print(f"{said:<12} {ends}  {text}{row.what}{note}")
            counts[said] = counts.get(said, 0) + 1
            failing += fails
    print(", ".join(f"{count} {said}" for said, count in counts.items()))
    return failing


def table(rows, measured):
    """The lines of a table of the page; figures that were not measured have no row in it."""
    lines = ["| figure | budget | measured |", "|---|---|---|"]
    for row in rows:
        if row.bench not in measured:
            continue
        figures = row.measurements(measured[row.bench])
        if figures is None:
            known = ", ".join(sorted(measured[row.bench]))
            sys.exit(f"tables.toml: {row.bench}.csv lacks one of {row.figures}; it has {known}")
        budget = f"{row.budget_cell()} " if row.budget_cell() else ""
        lines.append(f"| {row.what} | {budget}| {row.cell(figures)} |")
    return lines


def paragraph(text):
    """An item of a list, wrapped."""
    return textwrap.fill(
        f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def machines(measured):
    """The machines, each with its benches."""
    benches = {}
    for name in measured:
        about = (EVIDENCE / f"{name}.csv").read_text().splitlines()[1]
        day, rest = about.removeprefix("# ").split(", ", 1)
        benches.setdefault((rest.rsplit(", ", 1)[0], day), []).append(f"`{name}`")
    return [paragraph(f"{on}, {day}: {', '.join(all)}") for (on, day), all in benches.items()]


def draw(tables, check):
    page = PAGE.read_text()
    measured = measured_in(EVIDENCE, sorted(tables["bench"]))
    drawn = table_rows(tables)
    blocks = {name: table(rows, measured) for name, rows in drawn.items()}
    blocks["machines"] = machines(measured)
    reasons = tables["reason"].items()
    blocks["reasons"] = [paragraph(f"**{name}.** {text}") for name, text in reasons]
    for name, lines in blocks.items():
        begin, end = f"<!-- {name}: scripts/performance.py -->", "<!-- end -->"
        pattern = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
        block = "\n".join([begin, *lines, "", end])
        page, found = pattern.subn(lambda _, block=block: block, page)
        if found != 1:
            sys.exit(f"{PAGE.name} has {found} places for the block {name}: {begin} ... {end}")
    if check and page != PAGE.read_text():
        sys.exit(f"{PAGE.name} is not what the rows say: run scripts/performance.py draw")
    if not check:
        PAGE.write_text(page)


def chosen(tables, names):
    """These benches, or all."""
    unknown = [name for name in names if name not in tables["bench"]]
    if unknown:
        sys.exit(f"no bench {', '.join(unknown)}; there are {', '.join(tables['bench'])}")
    return list(names or tables["bench"])


def measure(tables, names):
    commit = version()
    if commit.endswith("-dirty") and "--dirty" not in names:
        sys.exit("the tree has uncommitted changes: commit them first, or measure --dirty")
    benches = chosen(tables, [name for name in names if name != "--dirty"])
    reasons = run_all(tables, benches, EVIDENCE, commit)
    if reasons:
        sys.exit("\n".join([*reasons, "the rows of these benches are as they were"]))


def bench(tables, arguments):
    ahead, options = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        ahead, options = arguments[:at], arguments[at + 1 :]
    benches = chosen(tables, ahead)
    for name in benches:
        (SCRATCH / f"{name}.csv").unlink(missing_ok=True)
    reasons = run_all(tables, benches, SCRATCH, version(), options)
    failing = judge(tables, SCRATCH, benches)
    if reasons or failing:
        sys.exit("\n".join([*reasons, f"{failing} figures fail"]))


def main(arguments):
    tables = tomllib.loads((EVIDENCE / "tables.toml").read_text())
    match arguments:
        case ["measure", _, *_] if arguments[1:] != ["--dirty"]:
            measure(tables, arguments[1:])
        case ["bench", *_]:
            bench(tables, arguments[1:])
        case ["judge", directory]:
            files = Path(directory).glob("*.csv")
            benches = {file.stem for file in files} & tables["bench"].keys()
            sys.exit(1 if not benches or judge(tables, Path(directory), benches) else 0)
        case ["draw"] | ["draw", "--check"]:
            draw(tables, arguments[1:] == ["--check"])
        case ["list"]:
            for name, about in tables["bench"].items():
                file = EVIDENCE / f"{name}.csv"
                when = file.read_text().splitlines()[1][2:] if file.exists() else "no rows"
                print(f"{name:<12} {when}\n             {about['command']}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
