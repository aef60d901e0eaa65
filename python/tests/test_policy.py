"""Policies in Python: the same decisions as in Rust, and failures that are not swallowed."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import memweir
import pytest
from memweir.policy import (
    Candidate,
    ColorAssignment,
    ColorSupply,
    Policy,
    Program,
    Setup,
    VictimPolicy,
    View,
    name_of,
)


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


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_target_that_is_no_bandwidth_ends_the_simulation(
    scenario: dict[str, Any], monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    monkeypatch.setattr(Target, "target", lambda self: wrong)
    with pytest.raises(memweir.PolicyError, match="target\\(\\) returned .*zero or more"):
        memweir.sim(scenario, policies=[Target()])


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
    with pytest.raises(memweir.PolicyError, match="`unprepared` failed: .*no table") as failed:
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
        ([], "\\[\\] names no policy"),
        (5, "5 names no policy"),
    ],
)
def test_wrong_policies_are_refused(
    scenario: dict[str, Any], policies: Any, said: str
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


def test_partitions_and_policies_exclude_each_other_at_bank_level() -> None:
    scenario = {"fidelity": "bank", "machine": "i7-860", "programs": [{"program": "429.mcf"}]}
    with pytest.raises(memweir.InputError, match="a batch is not compared by partitions"):
        memweir.sim({**scenario, "partitions": "none"}, policies=[RoundRobin()])


def test_policies_are_given_or_swept(scenario: dict[str, Any]) -> None:
    swept = {"policies": [["os"], ["max-weight"]]}
    assert len(memweir.sim(scenario, sweep=swept).rows) == 4
    with pytest.raises(memweir.InputError, match="policies: are swept already"):
        memweir.sim(scenario, policies=[RoundRobin()], sweep=swept)
    with pytest.raises(memweir.InputError, match="partitions: are swept already"):
        memweir.sweep(BANKS, {"partitions": [["none"]]}, partitions=[Halves()])


BANKS: dict[str, Any] = {
    "fidelity": "bank",
    "machine": "i7-860",
    "instructions": 100_000,
    "programs": [{"program": "429.mcf"}, {"program": "462.libquantum"}],
}


class Halves:
    """`uniform` for two programs, in other colors: the lower half and the upper one."""

    def __init__(self, version: str = "1") -> None:
        self.version = version
        self.seen: list[float | None] = []

    def assign(self, programs: Sequence[Program], supply: ColorSupply) -> list[list[int]]:
        assert len(supply.cache_parts) == len(supply.colors) and supply.banks_per_color >= 1
        self.seen += [program.mpki for program in programs]
        assert all(mpki is not None and mpki > 1 for mpki in self.seen)
        assert all(program.banks == 16 for program in programs)
        middle = len(supply.colors) // 2
        return [supply.colors[:middle], supply.colors[middle:]]


def test_a_color_assignment_is_a_partition() -> None:
    halves = Halves()
    assert isinstance(halves, ColorAssignment)
    result = memweir.sim(BANKS, partitions=["none", "uniform", halves])
    assert isinstance(result, memweir.BankResult)
    point = result.report["points"][0]
    none, uniform, own = point["partitions"]
    count = point["colors"]
    assert own["partition"] == "halves"
    assert own["colors"] == [f"0-{count // 2 - 1}", f"{count // 2}-{count - 1}"]
    assert own["improvement"] is not None and none["improvement"] is None
    assert not halves.seen, "each run has a copy"
    swept = memweir.sweep(BANKS, {"seed": [1, 2]}, partitions=["none", halves])
    assert [row["partition"] for row in swept.rows] == ["none", "none", "halves", "halves"] * 2


def test_a_policy_runs_a_batch_at_bank_level() -> None:
    batch = {
        "fidelity": "bank",
        "machine": {"cores": 2, "memory": {"device": "ddr4-2400"}},
        "compression": 10_000,
        "programs": [{"program": "462.libquantum", "time_us": 30, "instances": 3}],
    }
    result = memweir.sim(batch, policies=["os", "round-robin", RoundRobin()])
    assert isinstance(result, memweir.BankResult)
    os, known, own = result.report["points"][0]["policies"]
    assert {**own, "policy": "round-robin"} == known
    assert own["gain"] is not None and os["gain"] is None
    assert [row["policy"] for row in result.rows[::3]] == ["os", "round-robin", "in-order"]
    swept = memweir.sweep(batch, {"seed": [1, 2]}, policies=["os", RoundRobin()])
    assert isinstance(swept, memweir.BankResult)
    assert len(swept.rows) == 2 * 2 * 3


@pytest.mark.parametrize(
    ("colors", "said"),
    [
        (lambda supply: [supply.colors], "has 1 set of colors for 2 programs"),
        (lambda supply: [supply.colors, []], "gives program 1 no color"),
        (lambda supply: [[0], [4096]], "gives program 1 color 4096"),
    ],
)
def test_an_impossible_assignment_is_refused(colors: Any, said: str) -> None:
    class Wrong:
        def assign(self, programs: object, supply: ColorSupply) -> Any:
            return colors(supply)

    with pytest.raises(memweir.InputError, match=said):
        memweir.sim(BANKS, partitions=[Wrong()])


def test_an_assignment_that_raises_is_named() -> None:
    class Fails:
        def assign(self, programs: object, supply: object) -> Any:
            raise ArithmeticError("no colors today")

    with pytest.raises(memweir.PolicyError, match="no colors today") as failed:
        memweir.sim(BANKS, partitions=[Fails()])
    assert failed.value.policy == "fails"
    with pytest.raises(memweir.InputError, match="are for different scenarios"):
        memweir.sim(BANKS, policies=["os"], partitions=["none"])
    with pytest.raises(memweir.InputError, match="is no policy"):
        memweir.sim(BANKS, partitions=[object()])  # type: ignore[list-item]


PHONE = {
    "group": "news",
    "dram_mib": 96,
    "swap_mib": 512,
    "swaps": ["nvm", "flash"],
    "rounds": 2,
    "assumed": {"references": 20_000},
}


class FirstIn:
    """`fifo`, a second time."""

    name = "first-in"
    version = "1"

    def __init__(self) -> None:
        self.pages: dict[int, str] = {}

    def start(self, pages: int) -> None:
        self.number = pages

    def enter(self, page: int, why: str) -> None:
        assert page < self.number and why in ("new", "returned")
        self.pages[page] = why

    def leave(self, page: int) -> None:
        del self.pages[page]

    def victim(self) -> int:
        page = next(iter(self.pages))
        del self.pages[page]
        return page


class ScannedFirstIn(FirstIn):
    """The same, which lets the pages in DRAM be scanned now and then and looks at the scans."""

    name = "scanned"
    kinds: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, str] = {}
        self.chosen = 0

    def victim(self) -> int:
        self.chosen += 1
        return super().victim()

    def wants_scan(self) -> bool:
        return self.chosen % 10_000 == 9_999

    def see(self, page: int, seen: str) -> None:
        assert page in self.pages and page not in self.seen
        self.seen[page] = seen

    def scanned(self) -> None:
        assert self.seen.keys() == self.pages.keys()
        self.kinds.update(self.seen.values())
        self.seen.clear()


class LastIn(FirstIn):
    """The opposite."""

    name = "last-in"

    def victim(self) -> int:
        return self.pages.popitem()[0]


def victims_by_policy(result: memweir.PageResult) -> dict[str, Any]:
    """Returns the mean results by swap area of each victim policy."""
    points = result.report["points"]
    return {point["policy"]: [swap["mean"] for swap in point["swaps"]] for point in points}


def test_fifo_in_python_evicts_as_in_rust() -> None:
    assert isinstance(FirstIn(), VictimPolicy)
    result = memweir.page_sim(PHONE, policies=["fifo", FirstIn(), ScannedFirstIn(), LastIn()])
    swaps = victims_by_policy(result)
    assert list(swaps) == ["fifo", "first-in", "scanned", "last-in"]
    assert swaps["first-in"] == swaps["fifo"] == swaps["scanned"]
    assert swaps["last-in"] != swaps["fifo"]
    assert ScannedFirstIn.kinds == {"idle", "read", "written"}
    assert swaps["fifo"][0]["swap_outs"] > 1000


def test_victims_in_python_take_part_in_sweeps_on_disk(tmp_path: Any) -> None:
    grid = {"dram_mib": [96, 128]}
    swept = memweir.page_sweep(PHONE, grid, policies=["fifo", FirstIn()], out=tmp_path / "out")
    points = swept.report["points"]
    assert [point["policy"] for point in points] == ["fifo", "first-in"] * 2
    assert [point["swaps"] for point in points[::2]] == [point["swaps"] for point in points[1::2]]
    begun: list[int] = []
    again = memweir.page_sweep(
        PHONE,
        grid,
        policies=["fifo", FirstIn()],
        out=tmp_path / "out",
        progress=lambda done, total: begun.append(done),
    )
    assert again.rows == swept.rows and begun == []


class Stubborn(FirstIn):
    """Chooses a page that has never been in DRAM."""

    def victim(self) -> int:
        return self.number - 1


class Unable(FirstIn):
    """Has no victim."""

    def victim(self) -> int:
        raise LookupError("no page pleases")


@pytest.mark.parametrize(
    ("policy", "said"), [(Stubborn(), "is not in DRAM"), (Unable(), "no page pleases")]
)
def test_a_failing_victim_policy_ends_the_simulation(policy: VictimPolicy, said: str) -> None:
    with pytest.raises(memweir.PolicyError, match=said) as failed:
        memweir.page_sim(PHONE, policies=[policy])
    assert failed.value.policy == "first-in" and failed.value.__cause__ is not None


def test_wrong_victim_policies_are_refused() -> None:
    with pytest.raises(memweir.InputError, match="is no policy"):
        memweir.page_sim(PHONE, policies=[RoundRobin()])  # type: ignore[list-item]
    with pytest.raises(memweir.InputError, match="is swept already"):
        memweir.page_sim(PHONE, policies=["fifo"], sweep={"policy": ["clock"]})
    with pytest.raises(memweir.InputError, match="unknown victim policy `fif`"):
        memweir.page_sim(PHONE, policies=["fif"])
