"""Simulations: equal to those of the command, in all forms of input and output."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import memweir
import pytest
from memweir import _command

TEXT = """
machine = "iabw"
policies = ["os", "round-robin"]
optimum = "none"
[[tasks]]
program = "433.milc"
instances = 6
work_s = 1
"""


def command(*arguments: str) -> str:
    """Runs the command of the package and returns its standard output."""
    done = subprocess.run(
        [_command.path(), *arguments], check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return done.stdout


LOG = """
machine = "hmmsched"
policies = ["os", "round-robin"]
[log]
file = "jobs.swf"
bandwidth = 2e9
"""

# Number, submission, wait, run time and processors of each job; the other fields are unknown.
JOBS = "".join(
    f"{number} {number} 0 {3 + number} 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n" for number in range(1, 7)
)


@pytest.mark.parametrize("text", [TEXT, LOG])
def test_results_are_those_of_the_command(tmp_path: Path, text: str) -> None:
    file, rows = tmp_path / "s.toml", tmp_path / "rows.csv"
    file.write_text(text)
    (tmp_path / "jobs.swf").write_text(JOBS)
    options = ["--sweep", "cores=2,4", "--set", "quantum_ms=50"]
    said = command("sim", str(file), *options, "--json", "-", "--out", str(rows))
    expected = json.loads(said)
    del expected["memweir"]
    result = memweir.sim(file, {"quantum_ms": 50}, sweep={"cores": [2, 4]})
    assert result.report == expected
    with rows.open() as opened:
        written = list(csv.DictReader(opened))
    assert [set(row) for row in result.rows] == [set(row) for row in written]
    assert len(written) == 4
    for own, row in zip(result.rows, written):
        for key, value in row.items():
            if own[key] is None:
                assert value == ""
            elif isinstance(own[key], str):
                assert value == own[key]
            else:
                assert float(value) == pytest.approx(own[key], rel=1e-12)


def test_a_scenario_is_a_dict_a_text_or_a_path(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(TEXT)
    as_dict = {
        "machine": "iabw",
        "policies": ["os", "round-robin"],
        "optimum": "none",
        "tasks": [{"program": "433.milc", "instances": 6, "work_s": 1}],
    }
    forms: list[Any] = [TEXT, as_dict, file, str(file)]
    results = [memweir.sim(form).rows for form in forms]
    assert results[1:] == results[:-1]


def test_paths_in_a_scenario_start_at_its_directory(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(TEXT.replace('"iabw"', '"machine.toml"'))
    with pytest.raises(memweir.InputError, match="machine.toml: cannot be read"):
        memweir.sim(tmp_path / "m.toml")


def test_tables_have_the_rows(scenario: dict[str, Any]) -> None:
    result = memweir.sim(scenario, sweep={"cores": "2..4", "predictor": ["last", "window:3"]})
    assert len(result.rows) == 3 * 2 * 3 * 2
    table, frame, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert table.to_pylist() == result.rows
    assert frame["turnaround_s"].tolist() == [row["turnaround_s"] for row in result.rows]
    assert polars.to_dicts() == result.rows
    assert set(frame["cores"]) == {2, 3, 4}
    assert set(frame["predictor"]) == {"last", "window:3"}


def test_a_swept_key_gives_way_to_a_column_of_its_name(scenario: dict[str, Any]) -> None:
    result = memweir.sim(
        scenario, {"repetitions": 2, "policies": "os"}, sweep={"seed": [7, 3], "target": ["paper"]}
    )
    assert isinstance(result, memweir.SimResult)
    seeds = [(row["at.seed"], row["seed"]) for row in result.rows]
    assert seeds == [(7, 7), (7, 8), (3, 3), (3, 4)]
    assert {(row["at.target"], row["target"]) for row in result.rows} == {("paper", None)}
    # Their rows have no seed.
    assert [row["seed"] for row in result.policies] == [7, 3]


def test_conclusions_about_policies_are_rows(scenario: dict[str, Any]) -> None:
    result = memweir.sim(scenario)
    assert isinstance(result, memweir.SimResult)
    assert [row["policy"] for row in result.policies] == scenario["policies"]
    assert result.policies[0]["verdict"] == "baseline"
    assert "difference" not in result.policies[0], "its ends have columns of their own"


@pytest.mark.parametrize(
    "sweep", [None, {"cores": [2, 3]}, {"predictor": ["last", "window:3"], "cores": [2, 4]}]
)
def test_figures_are_drawn(scenario: dict[str, Any], sweep: Any, tmp_path: Path) -> None:
    figure = memweir.sim(scenario, sweep=sweep).plot()
    file = tmp_path / "figure.png"
    figure.savefig(file)
    assert file.stat().st_size > 5000
    assert figure.axes[0].get_ylabel() == "turnaround (s)"


def test_lines_follow_the_swept_key(scenario: dict[str, Any]) -> None:
    axes = memweir.sim(scenario, sweep={"cores": [4, 2, 3]}).plot().axes[0]
    lines: list[Any] = list(axes.lines)
    assert lines and all(list(line.get_xdata()) == [2, 3, 4] for line in lines)


def test_groups_of_bars_stand_over_their_labels(scenario: dict[str, Any]) -> None:
    swept: dict[str, Any] = {"predictor": ["last", "window:3"], "cores": [2, 4]}
    axes = memweir.sim(scenario, sweep=swept).plot().axes[0]
    bars: list[Any] = list(axes.patches)
    middles = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    # Each policy has a bar in each of the four groups.
    groups = [middles[group::4] for group in range(4)]
    assert [sum(group) / len(group) for group in groups] == pytest.approx([0, 1, 2, 3], abs=1e-9)


def test_many_labels_are_tilted(scenario: dict[str, Any]) -> None:
    few = memweir.sim(scenario).plot().axes[0]
    assert {label.get_rotation() for label in few.get_xticklabels()} == {0}
    policies = ["os", "long-job-first", "peak-bandwidth", "ideal-average", "available-bandwidth"]
    many = memweir.sim(scenario, policies=policies).plot().axes[0]
    assert {label.get_rotation() for label in many.get_xticklabels()} == {30}


def test_a_bank_level_scenario_gives_rows_of_programs() -> None:
    scenario = {
        "fidelity": "bank",
        "machine": "i7-860",
        "partitions": ["none", "uniform"],
        "instructions": 100_000,
        "programs": [{"program": "429.mcf"}, {"program": "462.libquantum"}],
    }
    result = memweir.sim(scenario)
    assert isinstance(result, memweir.BankResult)
    assert [(row["partition"], row["program"]) for row in result.rows] == [
        ("none", "429.mcf"),
        ("none", "462.libquantum"),
        ("uniform", "429.mcf"),
        ("uniform", "462.libquantum"),
    ]
    assert all(row["slowdown"] >= 0.9 for row in result.rows)
    assert result.plot().axes[0].get_ylabel() == "slowdown"
    # Two programs under two partitions at two points, each of which is drawn.
    swept = memweir.sim(scenario, sweep={"instructions": [100_000, 200_000]})
    axes = swept.plot().axes[0]
    assert len(axes.patches) == len(swept.rows) == 8
    assert axes.get_xlabel() == "instructions, program"


@pytest.mark.parametrize("threads", [0, -1])
def test_a_number_of_threads_is_refused_by_name(scenario: dict[str, Any], threads: int) -> None:
    with pytest.raises(memweir.InputError, match=f"threads: {threads} is no number of threads"):
        memweir.sim(scenario, threads=threads)


@pytest.mark.parametrize(
    ("change", "key", "said", "choice"),
    [
        ({"cores": 99}, "cores", "has 4 cores", "from 1 to 4"),
        ({"policies": ["max-wait"]}, "policies[0]", "unknown policy", "did you mean `max-weight`"),
        ({"tasks[0].program": "433.milk"}, "tasks[0].program", "unknown program", "433.milc"),
        ({"no key": 1}, "set", "names no key", "dots"),
        ({"quantum_ms": None}, None, "None is no value", "no key at all"),
        ({"quantum_ms": {1, 2}}, None, "{1, 2} is no value", "numbers"),
        ({"quantum_ms": float("nan")}, None, "nan is no value", "finite"),
        ({"seed": 1 << 63}, None, "9223372036854775808 is no value", "64 bits"),
        ({"tasks": [{"work_s": [2, None]}]}, "[0].work_s[1]", "None is no value", "lists"),
    ],
)
def test_wrong_input_is_refused_by_key(
    scenario: dict[str, Any], change: dict[str, Any], key: str | None, said: str, choice: str
) -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.sim(scenario, change)
    error = refused.value
    assert error.key == key
    assert said in error.reason
    assert error.help is not None and choice in error.help
    assert said in str(error) and choice in str(error)


def test_what_is_no_scenario_and_no_sweep_is_refused(scenario: dict[str, Any]) -> None:
    nothing: Any = None
    with pytest.raises(memweir.InputError, match="scenario: None is no scenario"):
        memweir.sim(nothing)
    number: Any = 4
    with pytest.raises(memweir.InputError, match="sweep cores: 4 is no list"):
        memweir.sim(scenario, sweep={"cores": number})


@pytest.mark.parametrize(
    ("given", "reason"),
    [("cores=2", "'cores=2' is no dict"), ([("cores", 2)], "is no dict"), ({1: 2}, "1 is no key")],
)
def test_what_is_no_dict_of_keys_is_refused(
    scenario: dict[str, Any], given: Any, reason: str
) -> None:
    with pytest.raises(memweir.InputError, match=f"arguments: set: .*{reason}"):
        memweir.sim(scenario, given)
    with pytest.raises(memweir.InputError, match=f"arguments: sweep: .*{reason}"):
        memweir.sweep(scenario, given)
    with pytest.raises(memweir.InputError, match=f"arguments: sweep: .*{reason}"):
        memweir.page_sim({}, sweep=given)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ("1..10001", "10001"),
        (range(1, 10_002), "10001"),
        (range(1 << 40), "1099511627776"),
        (itertools.count(), "more than 10000"),
    ],
)
def test_more_values_than_a_key_can_take_are_refused_unread(
    scenario: dict[str, Any], values: Any, count: str
) -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.sim(scenario, sweep={"seed": values})
    said = f"arguments: sweep: {count} values of one key are too many\n  help: at most 10000"
    assert str(refused.value) == said


def test_a_refusal_names_the_line_of_a_text_but_not_of_a_dict() -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.sim(TEXT.replace("policies =", "polices ="))
    assert (refused.value.line, refused.value.key) == (3, "polices")
    with pytest.raises(memweir.InputError) as refused:
        memweir.sim({"machine": "iabw", "polices": ["os"]})
    assert (refused.value.line, refused.value.key) == (None, "polices")


def test_a_value_of_pandas_that_is_missing_is_refused_by_key(scenario: dict[str, Any]) -> None:
    import pandas

    tasks = [{"program": "433.milc", "work_s": 2}, {"program": "444.namd"}]
    scenario["tasks"] = pandas.DataFrame(tasks).to_dict("records")
    with pytest.raises(memweir.InputError) as refused:
        memweir.sim(scenario)
    assert (refused.value.source, refused.value.key) == ("scenario", "tasks[1].work_s")


def test_numbers_of_numpy_and_paths_are_values(scenario: dict[str, Any]) -> None:
    import numpy

    plain = memweir.sim(scenario, {"cores": 3, "quantum_ms": 50.0})
    same = memweir.sim(scenario, {"cores": numpy.int64(3), "quantum_ms": numpy.float64(50.0)})
    assert same.rows == plain.rows
    with pytest.raises(memweir.InputError, match="no-such.toml"):
        memweir.sim(scenario, {"machine": Path("no-such.toml")})


def test_progress_counts_the_runs(scenario: dict[str, Any]) -> None:
    seen: list[tuple[int, int]] = []
    memweir.sim(scenario, progress=lambda done, total: seen.append((done, total)), threads=1)
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)


def test_an_exception_of_progress_ends_the_call(scenario: dict[str, Any]) -> None:
    def refuse(done: int, total: int) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        memweir.sim(scenario, progress=refuse)


def test_a_bar_is_shown_if_wanted(
    scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memweir._progress._DELAY_S", 0.0)
    memweir.sim(scenario, progress=True)
    assert "run" in capfd.readouterr().err
    memweir.sim(scenario, progress=False)
    assert capfd.readouterr().err == ""


def test_results_do_not_depend_on_the_threads(scenario: dict[str, Any]) -> None:
    assert memweir.sim(scenario, threads=1).report == memweir.sim(scenario, threads=3).report


def test_other_threads_run_meanwhile(scenario: dict[str, Any]) -> None:
    counted, over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.wait(0.001):
            counted += 1

    counter = threading.Thread(target=count)
    counter.start()
    memweir.sim(scenario, {"repetitions": 200})
    over.set()
    counter.join()
    assert counted > 10


LONG = f"""
import memweir
def told(done, total):
    if done >= 1:
        print("started", flush=True)
memweir.sim({TEXT!r}, {{"repetitions": 100_000}}, progress=told)
"""

# One program alone, for days.
LONG_AT_BANK_LEVEL = """
import memweir
def told(done, total):
    print("started", flush=True)
text = "fidelity = 'bank'\\nmachine = 'i7-860'\\n[[programs]]\\nprogram = '444.namd'\\n"
memweir.sim(text, {"instructions": 10**14}, progress=told)
"""

# A sweep whose second point takes long.
LONG_SWEEP = f"""
import memweir
def told(done, total):
    print("started", flush=True)
memweir.sweep({TEXT!r}, {{"repetitions": [1, 100_000]}}, progress=told, points_per_task=1)
"""


# Policies that never return, on other threads than that of the call. Each writes its line at once,
# because there may be two.
ENDLESS = """
import memweir
class Endless:
    def select(self, view):
        print("started\\n", end="", flush=True)
        while True:
            pass
"""
ENDLESS_SIM = f"{ENDLESS}memweir.sim({TEXT!r}, policies=[Endless()])"
ENDLESS_SWEEP = f"{ENDLESS}memweir.sweep({TEXT!r}, {{'cores': [2, 3]}}, policies=[Endless()])"


@pytest.mark.parametrize(
    "script", [LONG, LONG_AT_BANK_LEVEL, LONG_SWEEP, ENDLESS_SIM, ENDLESS_SWEEP]
)
def test_a_signal_interrupts_a_long_call(script: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors.splitlines()[-1]
    assert process.returncode == -signal.SIGINT


def test_page_sim_gives_the_rows_of_the_command(tmp_path: Path) -> None:
    file, rows = tmp_path / "phone.toml", tmp_path / "rows.csv"
    file.write_text('swaps = ["dram", "nvm"]\ngroup = "browser"\ndram_mib = 182\nswap_mib = 512\n')
    command("page", "sim", str(file), "--out", str(rows), "--sweep", "dram_mib=182,256")
    result = memweir.page_sim(file, sweep={"dram_mib": [182, 256]})
    with rows.open() as opened:
        written = list(csv.DictReader(opened))
    assert len(written) == len(result.rows) == 4
    for own, row in zip(result.rows, written):
        for key, value in row.items():
            if isinstance(own[key], float):
                assert float(value) == pytest.approx(own[key], rel=1e-12)
            else:
                assert value == ("" if own[key] is None else str(own[key]))
    assert result.plot().axes[0].get_xlabel() == "dram_mib"


def test_the_version_is_that_of_the_command() -> None:
    assert memweir.__version__ == command("--version").split()[1]
