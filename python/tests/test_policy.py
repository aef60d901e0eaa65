"""Policies in Python: the same decisions as in Rust, and failures that are not swallowed."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Iterable
from typing import Any

import memweir
import pytest
from memweir.policy import Candidate, Policy, Setup, View, name_of


class RoundRobin:
    """`round-robin`, a second time."""

    name = "in-order"

    def select(self, view: View) -> Iterable[Candidate]:
        chosen, free = [], view.cores
        for job in view.queue:
            if job.cores <= free:
                chosen.append(job)
                free -= job.cores
        return chosen


class LongJobFirst(RoundRobin):
    """`long-job-first`: needs the knowledge of the jobs."""

    name = "longest"

    def select(self, view: View) -> Iterable[Candidate]:
        return sorted(view.queue, key=lambda job: -(job.expected_time_s or 0.0))[: view.cores]


def runs_of(result: Any, policy: str) -> list[dict[str, Any]]:
    """Returns the runs of a policy as the report has them, without its name."""
    runs = [run for point in result.report["points"] for run in point["runs"]]
    return [{**run, "policy": ""} for run in runs if run["policy"] == policy]


@pytest.mark.parametrize("knowledge", ["alone", "nothing"])
def test_round_robin_in_python_decides_as_in_rust(
    scenario: dict[str, Any], knowledge: str
) -> None:
    result = memweir.sim(
        scenario,
        {"knowledge": knowledge},
        policies=["round-robin", RoundRobin()],
        sweep={"cores": [1, 2, 3, 4]},
    )
    assert runs_of(result, "in-order") == runs_of(result, "round-robin")
    assert len(runs_of(result, "in-order")) == 8


def test_long_job_first_in_python_decides_as_in_rust(scenario: dict[str, Any]) -> None:
    scenario["tasks"] += [{"program": "410.bwaves", "instances": 3, "work_s": 5}]
    result = memweir.sim(scenario, policies=["long-job-first", LongJobFirst()])
    assert runs_of(result, "longest") == runs_of(result, "long-job-first")


def test_cores_may_stay_idle_as_for_policies_in_rust(scenario: dict[str, Any]) -> None:
    scenario["tasks"] = [{"program": "410.bwaves", "instances": 8, "work_s": 3}]
    auto = memweir.sim(scenario, {"cores": "auto"}, policies=["round-robin", RoundRobin()])
    assert runs_of(auto, "in-order") == runs_of(auto, "round-robin:auto-cores")


class Drawn:
    """Draws jobs with the seed of the run."""

    def start(self, setup: Setup) -> None:
        self.random = random.Random(setup.seed)

    def select(self, view: View) -> Iterable[Candidate]:
        return self.random.sample(view.queue, min(view.cores, len(view.queue)))


def test_equal_runs_have_equal_results_whatever_the_threads(scenario: dict[str, Any]) -> None:
    policy = Drawn()
    reports = [memweir.sim(scenario, policies=[policy], threads=n).report for n in (1, 2, 4)]
    assert reports[0] == reports[1] == reports[2]
    assert not hasattr(policy, "random"), "runs work on copies"
    first, second = reports[0]["points"][0]["runs"]
    assert first["seed"] != second["seed"]
    assert first["turnaround_s"] != second["turnaround_s"]


class Inspector:
    """Checks the view in each quantum of a run."""

    def start(self, setup: Setup) -> None:
        assert (setup.cores, setup.quantum_s, setup.media) == (4, 0.1, ["dram"]), setup.media
        assert setup.peak is not None and setup.medium_peaks == [setup.peak]

    def select(self, view: View) -> Iterable[int]:
        assert view.cores + len(view.running) == 4 or not view.queue
        assert view.committed == pytest.approx(sum(job.demand for job in view.running))
        assert view.peak is not None and view.saturation == pytest.approx(view.peak * 35 / 40)
        jobs = [*view.running, *view.queue]
        assert len({job.job for job in jobs}) == len(jobs)
        for job in jobs:
            assert job.cores == 1 and job.demand == job.demand_per_core >= 0.0
            assert sum(map(sum, job.traffic)) == pytest.approx(job.demand)
            assert job.expected_time_s is not None and job.expected_time_s > 0.0
            assert job.executed_s <= job.age_s + 1e-9 and job.progress_s >= 0.0
        alone = [view.speeds([job])[0] for job in jobs]
        together = view.speeds(jobs)
        assert all(0.0 < slow <= fast <= 1.0 for slow, fast in zip(together, alone))
        return [job.job for job in view.queue[: view.cores]]


def test_the_view_shows_what_the_scheduler_knows(scenario: dict[str, Any]) -> None:
    memweir.sim(scenario, policies=[Inspector()])


class Target(RoundRobin):
    """Aims at a bandwidth."""

    name = "aims"

    def target(self) -> float:
        return 3e9


def test_a_target_is_reported(scenario: dict[str, Any]) -> None:
    result = memweir.sim(scenario, policies=[Target(), RoundRobin()])
    targets = {row["policy"]: row["target"] for row in result.rows}
    assert targets == {"aims": 3e9, "in-order": None}


class Failing(RoundRobin):
    """Fails in a quantum."""

    name = "failing"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def select(self, view: View) -> Any:
        if view.quantum >= 7 and view.cores == 3:
            return self.answer(view)
        return super().select(view)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (lambda view: dict[str, int]()["missing"], KeyError, "missing"),
        (lambda view: [view.running[0]], ValueError, "which is not waiting; waiting: "),
        (lambda view: [99], ValueError, "job 99, which is not waiting"),
        (lambda view: view.queue[:1] * 2, ValueError, "twice"),
        (lambda view: view.queue, ValueError, "chose jobs for 8 cores; 3 are free"),
        (lambda view: ["0"], TypeError, "'str'"),
        (lambda view: None, TypeError, "'NoneType'"),
    ],
)
def test_a_failure_ends_the_simulation_with_its_traceback(
    scenario: dict[str, Any], answer: Any, kind: type[Exception], said: str
) -> None:
    # Eight wait beside the head of the queue and three cores, and none ends before the failure.
    scenario["tasks"] = [{"program": "433.milc", "instances": 9, "work_s": 2}]
    with pytest.raises(memweir.PolicyError) as failed:
        memweir.sim(scenario, policies=["os", Failing(answer)])
    error = failed.value
    assert (error.policy, error.quantum) == ("failing", 7)
    assert said in error.reason
    assert isinstance(error.__cause__, kind)
    if kind is KeyError:
        frames = traceback.extract_tb(error.__cause__.__traceback__)
        assert [frame.name for frame in frames] == ["select", "<lambda>"]


class Unprepared(RoundRobin):
    """Fails before the first quantum."""

    name = "unprepared"

    def start(self, setup: Setup) -> None:
        raise RuntimeError("no table for this machine")


def test_a_failure_before_the_first_quantum_is_one_too(scenario: dict[str, Any]) -> None:
    with pytest.raises(memweir.PolicyError, match="before the first quantum.*no table") as failed:
        memweir.sim(scenario, policies=[Unprepared()])
    assert failed.value.quantum is None


class Named:
    """A policy with any name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def select(self, view: View) -> Iterable[Candidate]:
        return ()


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ([Named("os")], "is the name of a policy of memweir"),
        ([Named("a:b")], "is not a name"),
        ([Named("a"), Named("a")], "two policies are called `a`"),
        (["os", RoundRobin], "is no policy"),
        (["os", 3], "is no policy"),
        ([], "there is no policy"),
    ],
)
def test_wrong_policies_are_refused(
    scenario: dict[str, Any], policies: list[Any], said: str
) -> None:
    with pytest.raises(memweir.InputError, match=said):
        memweir.sim(scenario, policies=policies)


def test_names_come_from_the_object_or_its_class() -> None:
    assert name_of(RoundRobin()) == "in-order"
    assert name_of(LongJobFirst()) == "longest"

    class MyBestPolicy2:
        pass

    assert name_of(MyBestPolicy2()) == "my-best-policy2"
    assert isinstance(RoundRobin(), Policy)
    assert not isinstance(MyBestPolicy2(), Policy)


MEETING = threading.Barrier(2)


class Meeting(RoundRobin):
    """Waits in its first quantum until a second run is in its first quantum."""

    name = "meeting"

    def select(self, view: View) -> Iterable[Candidate]:
        if view.quantum == 0:
            MEETING.wait()
        return super().select(view)


def test_runs_under_python_policies_take_turns_on_several_threads(
    scenario: dict[str, Any],
) -> None:
    # Alone, or with the lock held, the first run would wait forever.
    memweir.sim(scenario, {"repetitions": 2}, policies=[Meeting()], threads=2)


def test_policies_are_of_no_use_at_bank_level() -> None:
    scenario = {"fidelity": "bank", "machine": "i7-860", "programs": [{"program": "429.mcf"}]}
    with pytest.raises(memweir.InputError, match="policies"):
        memweir.sim(scenario, policies=[RoundRobin()])
