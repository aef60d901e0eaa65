"""Calls that run the bundled command: reports, failures and interruption."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import memweir
import pytest
from memweir import _command


def test_profile_counts_the_traffic_of_a_program(tmp_path: Path) -> None:
    recording = tmp_path / "recording.parquet"
    result = memweir.profile(
        ["gzip", "--version"], meter="software", no_store=True, recording=recording
    )
    assert result.exit_code == 0
    assert result.report["meter"] == "software"
    assert result.report["command"] == ["gzip", "--version"]
    assert result.rows and all(row["instructions"] > 0 for row in result.rows)
    assert result.to_arrow().num_rows == len(result.rows)
    assert result.plot().axes[0].get_ylabel() == "bandwidth (GB/s)"
    result.report["command"] = ["/a/long/path" * 10, "an argument"]
    title = result.plot().axes[0].get_title().splitlines()
    assert len(title) == 2 and all(len(line) <= 70 for line in title)
    # A scenario can name what was recorded.
    scenario = {
        "machine": "iabw",
        "policies": ["os", "max-weight"],
        "tasks": [{"recording": str(recording), "instances": 6}],
    }
    simulated = memweir.sim(scenario, {"tasks[0].work_s": 1})
    assert len(simulated.rows) == 2


def test_run_reports_each_job() -> None:
    result = memweir.run([["true"], ["sh", "-c", "exit 3"]], policy="round-robin")
    assert result.exit_code == 1
    assert [row["exit_code"] for row in result.rows] == [0, 3]
    assert "round-robin" in str(result)


def test_a_comparison_has_a_row_for_each_run() -> None:
    jobs = [["sleep", "0.1"], ["sleep", "0.1"]]
    result = memweir.run(jobs, compare=["os", "round-robin"], repeat=2)
    assert sorted((row["variant"], row["round"]) for row in result.rows) == [
        ("os", 0),
        ("os", 1),
        ("round-robin", 0),
        ("round-robin", 1),
    ]
    assert all(row["turnaround_s"] >= 0.1 for row in result.rows)


def test_reproduce_compares_with_the_paper(tmp_path: Path) -> None:
    result = memweir.reproduce("drswap", tmp_path, figure=["table4"], quick=True)
    assert (tmp_path / "report.html").exists()
    assert result.directory == str(tmp_path)
    assert {row["figure"] for row in result.rows} == {"table4"}
    assert len(result.rows) > 10


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    lines = [f"{'LD' if at % 3 else 'ST'} {64 * at:#x}" for at in range(1000)]
    trace.write_text("\n".join(lines) + "\n")
    result = memweir.dram.replay(trace, "ddr4-2400", format="ramulator2", check=True, queue=[16, 8])
    assert result.exit_code == 0
    assert (result.report["reads"], result.report["writes"]) == (666, 334)
    assert result.report["memories"][0]["read_queue"] == 16
    assert result.rows[0]["requests"] == 1000


@pytest.mark.parametrize(
    ("options", "said"),
    [({"policy": "max-wait"}, "max-wait"), ({"no_such_option": True}, "--no-such-option")],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.run([["true"]], **options)
    assert said in str(refused.value)


def test_a_refusal_of_the_command_line_is_whole() -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.profile([])
    assert refused.value.reason == "the following required arguments were not provided: <CMD>..."
    with pytest.raises(memweir.InputError) as refused:
        memweir.reproduce("iabv")
    assert "possible values: iabw, hmmsched, bpm" in refused.value.reason
    with pytest.raises(memweir.InputError) as refused:
        memweir.run([["true"]], polcy="os")
    assert refused.value.help == "a similar argument exists: '--policy'"


def test_a_refusal_of_the_command_keeps_its_parts(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.toml"
    jobs.write_text('polcy = "os"\n[[jobs]]\ncommand = "true"\n')
    with pytest.raises(memweir.InputError) as refused:
        memweir.run(jobs)
    error = refused.value
    assert (error.source, error.line, error.key) == (str(jobs), 1, "polcy")
    assert (error.reason, error.help) == ("unknown key", "did you mean `policy`?")
    with pytest.raises(memweir.InputError, match="cannot be read"):
        memweir.run(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([["true"], ["parallel", "echo", ":::", "a"]], "jobs\\[1\\]: `:::` separates commands"),
        (["sleep 1"], "jobs\\[0\\]: 'sleep 1' is a text"),
        ([["true"], 5], "jobs\\[1\\]: 5 is no command"),
        (None, "jobs: None names no jobs"),
        ([[], ["true"]], "command 1 is empty"),
    ],
)
def test_what_is_no_list_of_commands_is_refused(jobs: Any, said: str) -> None:
    with pytest.raises(memweir.InputError, match=said):
        memweir.run(jobs, policy="os")
    with pytest.raises(memweir.InputError, match="command: 'sleep 1' is a text"):
        memweir.profile("sleep 1")


@pytest.mark.parametrize("option", ["list", "list_points", "resume", "shard"])
def test_a_reproduction_without_a_report_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(memweir.InputError, match=f"{option}: makes no report"):
        memweir.reproduce("drswap", tmp_path / "out", **{option: "1/2"})
    assert not (tmp_path / "out").exists()


def test_numbers_and_entries_of_directories_are_words(tmp_path: Path) -> None:
    (tmp_path / "mix.toml").write_text(memweir.command("sim", "--example"))
    (entry,) = os.scandir(tmp_path)
    said = memweir.command("sim", entry, "--set", "repetitions=1", "--threads", 1)
    assert "ideal-average" in said
    with pytest.raises(memweir.InputError, match="cannot be read"):
        memweir.command("sim", 5)


def test_what_this_machine_cannot_do_is_told() -> None:
    with pytest.raises(memweir.MachineError, match="no-such.so") as failed:
        memweir.profile(["true"], meter="software", no_store=True, plugin="/no-such.so")
    assert failed.value.exit_code == 3


def test_a_command_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWEIR_COMMAND", "/no/such/memweir")
    with pytest.raises(memweir.CommandError, match="/no/such/memweir"):
        memweir.run([["true"]])


def instead_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Makes calls run a script of the shell."""
    command = tmp_path / "instead"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("MEMWEIR_COMMAND", str(command))


def test_what_was_measured_before_a_failure_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = 'while [ "$1" != --json ]; do shift; done; echo \'{"rounds": 2}\' > "$2"'
    script = f"{report}; echo 'memweir: no space is left' >&2; exit 4"
    instead_of_the_command(tmp_path, monkeypatch, script)
    with pytest.raises(memweir.CommandError, match="no space is left") as failed:
        memweir.run([["true"]], compare=["os", "random"])
    assert failed.value.report == {"rounds": 2}
    instead_of_the_command(tmp_path, monkeypatch, "exit 3")
    with pytest.raises(memweir.MachineError) as failed:
        memweir.run([["true"]])
    assert failed.value.report is None


def test_words_may_be_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_the_command(tmp_path, monkeypatch, 'echo "$@"')
    assert memweir.command("submit", b"--", b"sort") == "submit -- sort\n"  # type: ignore[arg-type]


def test_a_second_signal_does_not_wait_for_the_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = tmp_path / "heard"
    script = f"trap 'echo >> {heard}' INT; sleep 0.5; echo > {tmp_path}/started"
    script += f"; until [ -e {heard} ] && [ $(wc -l < {heard}) -ge 2 ]; do sleep 0.05; done"
    instead_of_the_command(tmp_path, monkeypatch, script)
    process = subprocess.Popen(
        [sys.executable, "-c", "import memweir; memweir.command('run')"], stderr=subprocess.DEVNULL
    )
    for file in (tmp_path / "started", heard):
        while not file.exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
    process.wait()
    assert len(heard.read_text()) >= 2


def test_a_signal_ends_the_jobs_and_is_passed_on(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    job = ["sh", "-c", f"echo $$ > {mark}; sleep 600"]
    code = f"import memweir; memweir.run([{job!r}], policy='os')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, encoding="utf-8"
    )
    while not (mark.exists() and mark.read_text().endswith("\n")):
        assert process.poll() is None, process.communicate()
    started = int(mark.read_text())
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)


def test_options_become_those_of_the_command() -> None:
    options = {"no_store": True, "queue": (1, 2), "quick": False, "seed": 3, "map": None}
    assert _command.arguments(options) == ["--no-store", "--queue", "1,2", "--seed", "3"]
    import numpy

    options = {"no_store": numpy.True_, "quick": numpy.False_, "queue": numpy.array([1, 2])}
    assert _command.arguments(options) == ["--no-store", "--queue", "1,2"]
    # An option of one value that can be repeated.
    repeated = _command.arguments({"policy_program": ["a=./a", "b=./b x,y"]})
    assert repeated == ["--policy-program", "a=./a", "--policy-program", "b=./b x,y"]


@pytest.mark.parametrize(
    "error",
    [
        memweir.InputError("jobs.toml", "unknown key", 2, "polcy", "did you mean `policy`?"),
        memweir.PolicyError("mine", 3, "ValueError: no"),
        memweir.MachineError("no meter", 3),
        memweir.MissingPackageError("pandas", "pandas"),
    ],
)
def test_exceptions_reach_other_processes(error: memweir.Error) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
