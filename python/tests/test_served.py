"""Policies in Python that the command asks: in emulation, and live."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import memweir
import pytest
from memweir.policy import Candidate, Policy, Setup, View

MACHINE = """
name = "trial"
source = "made up"
core_peak = 1.9e9
core_instructions = 2e9
[[nodes]]
cores = 2
[[memories]]
medium = "dram"
capacity = 2e9
[caches.llc]
size = 262144
ways = 16
"""

# Fills an array far beyond the caches and reads it; counts up to a number.
STREAM = "BEGIN { for (i = 0; i < 20000; i++) a[i] = i; for (i = 0; i < 20000; i++) s += a[i] }"
JOBS = [["awk", STREAM]] * 3 + [["sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"]] * 2


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    file = tmp_path / "m.toml"
    file.write_text(MACHINE)
    return file


class RoundRobin:
    """`round-robin`, a second time."""

    name = "in-order"

    def select(self, view: View) -> Iterable[Candidate]:
        return view.queue[: view.cores]


class Attentive:
    """The same, which looks at all that it is shown."""

    name = "looks"

    def start(self, setup: Setup) -> None:
        assert (setup.cores, setup.quantum_s, setup.seed) == (2, 0.01, 1)
        assert setup.peak == 2e9 and setup.media == ["dram"]

    def select(self, view: View) -> Iterable[int]:
        assert view.peak == 2e9 and view.saturation == 2e9 * 35 / 40
        assert view.highest_observed >= 0.0
        jobs = [*view.running, *view.queue]
        assert all(0.0 < speed <= 1.0 for speed in view.speeds(jobs))
        assert all(job.age_s >= 0.0 and job.cores == 1 for job in jobs)
        return [job.job for job in view.queue[: view.cores]]

    def target(self) -> float:
        return 1e9


def runs_of(result: memweir.RunResult) -> list[dict[str, Any]]:
    """Returns the figures of the runs that do not depend on the host or on the policy's name."""
    runs = []
    for run in result.report["runs"]:
        report = {**run["report"], "policy": "", "target": None, "scheduler_s": 0.0, "notices": []}
        report["jobs"] = [{**job, "stdout": "", "stderr": ""} for job in report["jobs"]]
        runs.append(report)
    return runs


def test_a_policy_in_python_decides_in_emulation_as_its_twin(machine: Path) -> None:
    policies: list[str | Policy] = ["round-robin", RoundRobin(), Attentive(), "os"]
    result = memweir.emulate(JOBS, machine=machine, policies=policies, quantum="10ms")
    assert [run["variant"] for run in result.report["runs"]] == [
        "round-robin",
        "in-order",
        "looks",
        "os",
    ]
    rust, python, looks, system = runs_of(result)
    assert rust["quanta"] > 5
    assert python == rust and looks == rust
    assert system != rust
    assert result.report["runs"][2]["report"]["target"] == 1e9


def test_two_emulations_are_equal_and_share_no_state(machine: Path) -> None:
    class Counting(RoundRobin):
        calls = 0

        def select(self, view: View) -> Iterable[Candidate]:
            self.calls += 1
            assert self.calls > 1 or view.quantum == 0
            return super().select(view)

    policy = Counting()
    result = memweir.emulate(
        JOBS[:2], machine=machine, policies=[policy], quantum="10ms", cores=1, verify=True
    )
    assert result.report["policy"] == "in-order"
    assert "verified: a second run gave the same result" in result.text
    assert policy.calls == 0, "runs work on copies"


def test_a_policy_in_python_decides_live() -> None:
    jobs = [["sleep", "0.1"], ["true"], ["sh", "-c", "exit 3"]]
    result = memweir.run(jobs, policies=[RoundRobin()])
    assert [row["exit_code"] for row in result.rows] == [0, 0, 3]
    assert result.report["policy"] == "in-order"
    compared = memweir.run(jobs[:2], policies=["os", RoundRobin()], repeat=2)
    assert {row["variant"] for row in compared.rows} == {"os", "in-order"}


def test_a_temporary_directory_may_have_a_long_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert memweir.run([["true"]], policies=[RoundRobin()]).exit_code == 0


class Fails(RoundRobin):
    """Fails in a way that is given, once several quanta are over."""

    name = "fails"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def select(self, view: View) -> Any:
        if view.quantum < 2:
            return []
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ArithmeticError("no idea"), "no idea"),
        (None, "select() returned"),
        ([99], "select() chose job 99, which is not waiting; waiting: "),
        ([1.5], "select() chose <class 'float'>, and not a job of view.queue"),
    ],
)
def test_an_exception_reaches_the_caller(machine: Path, answer: Any, said: str) -> None:
    with pytest.raises(memweir.PolicyError) as failed:
        memweir.emulate(JOBS, machine=machine, policies=["os", Fails(answer)], quantum="10ms")
    assert said in failed.value.reason
    assert (failed.value.policy, failed.value.quantum) == ("fails", 2)
    assert failed.value.__cause__ is not None
    if isinstance(answer, Exception):
        assert "raise self.answer" in "".join(traceback.format_exception(None, failed.value, None))


def test_a_policy_that_cannot_start_is_named() -> None:
    class Unready(RoundRobin):
        def start(self, setup: Setup) -> None:
            raise LookupError("not today")

    with pytest.raises(memweir.PolicyError, match="not today") as failed:
        memweir.run([["sleep", "60"]], policies=[Unready()])
    assert failed.value.quantum is None
    assert failed.value.report is not None
    assert failed.value.report["outcome"] == "policy-failed"


def test_failures_outside_of_this_process_are_policy_errors_too() -> None:
    with pytest.raises(memweir.PolicyError) as failed:
        memweir.run([["sleep", "60"]], policy_program="mine=exit 3")
    assert (failed.value.policy, failed.value.quantum) == ("mine", 0)
    assert failed.value.reason == "it ended before it answered (exit status: 3)"
    assert failed.value.report is not None
    assert failed.value.report["outcome"] == "policy-failed"


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(memweir.InputError, match="is no policy"):
        memweir.run([["true"]], policies=[object()])  # type: ignore[list-item]
    with pytest.raises(memweir.InputError, match="\\[\\] names no policy"):
        memweir.run([["true"]], policies=[])
    with pytest.raises(memweir.InputError, match="did you mean `max-weight`"):
        memweir.run([["true"]], policies=["max-wait", RoundRobin()])
    with pytest.raises(memweir.InputError, match="is the name of a policy"):
        twin = RoundRobin()
        twin.name = "os"
        memweir.run([["true"]], policies=[twin])
