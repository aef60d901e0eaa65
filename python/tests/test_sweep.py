"""Sweeps: the points of `sim`, on any executor, kept and taken up again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import memweir
import polars
import pytest
from memweir import _native, _scenario
from memweir.policy import Candidate, View

GRID: dict[str, Any] = {"cores": "2..4", "predictor": ["last", "window:3"]}


class RoundRobin:
    """`round-robin`, a second time."""

    name = "in-order"

    def select(self, view: View) -> Iterable[Candidate]:
        return view.queue[: view.cores]


class Versioned(RoundRobin):
    """The same with a version."""

    name = "versioned"

    def __init__(self, version: str) -> None:
        self.version = version


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the points that workers of this process simulate."""
    calls: list[int] = []
    original = _native.run_points

    def run_points(*arguments: Any) -> list[str]:
        calls.extend(arguments[3])
        return original(*arguments)

    monkeypatch.setattr(_native, "run_points", run_points)
    return calls


def partitions(directory: Path) -> list[Path]:
    """Returns the partitions of a sweep's directory."""
    return sorted(directory.iterdir())


def files(directory: Path) -> list[Path]:
    """Returns the files with results below a sweep's directory."""
    return sorted(directory.rglob("*.parquet"))


def kept(directory: Path) -> dict[str, int]:
    """Returns the rows of each point below a sweep's directory."""
    rows = polars.scan_parquet(files(directory)).select("point").collect()
    return dict(rows.group_by("point").len().iter_rows())


def test_points_are_those_of_sim(scenario: dict[str, Any]) -> None:
    whole = memweir.sim(scenario, sweep=GRID)
    swept = memweir.sweep(scenario, GRID)
    assert swept.report["points"] == whole.report["points"]
    assert swept.rows == whole.rows


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_runs_them(scenario: dict[str, Any], kind: type[Executor]) -> None:
    policies: list[Any] = ["round-robin", RoundRobin()]
    with kind() as executor:
        swept = memweir.sweep(scenario, GRID, policies=policies, executor=executor)
    assert swept.rows == memweir.sim(scenario, policies=policies, sweep=GRID).rows


class Result:
    """A future that has nothing but its result."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


class AtOnce:
    """Runs each task as it is submitted."""

    def submit(self, function: Any, /, *arguments: Any) -> Result:
        return Result(function(*arguments))


def test_a_future_needs_no_more_than_a_result(scenario: dict[str, Any]) -> None:
    swept = memweir.sweep(scenario, GRID, executor=AtOnce())
    assert swept.rows == memweir.sim(scenario, sweep=GRID).rows


def test_processes_write_files_of_their_own(scenario: dict[str, Any], tmp_path: Path) -> None:
    # Forked workers have the same memory, generators of random numbers included.
    memweir.sweep(scenario, {"cores": [4]}, out=tmp_path / "before")
    with ProcessPoolExecutor(2) as executor:
        swept = memweir.sweep(
            scenario, {"seed": range(40)}, {"cores": 2}, executor=executor, out=tmp_path / "points"
        )
    assert len(files(tmp_path / "points")) == 40
    assert [row["seed"] for row in swept.rows[::6]] == list(range(40))


def test_a_sweep_is_taken_up_where_it_ended(
    scenario: dict[str, Any], tmp_path: Path, counted: list[int]
) -> None:
    first = memweir.sweep(scenario, GRID, out=tmp_path)
    assert sorted(counted) == [0, 1, 2, 3, 4, 5]
    (partition,) = partitions(tmp_path)
    manifest = json.loads((partition / "manifest.json").read_text())
    assert partition.name == f"scenario={manifest['scenario']}"
    assert manifest["points"] == len(kept(tmp_path)) == 6
    files(tmp_path)[4].unlink()
    counted.clear()
    again = memweir.sweep(scenario, GRID, out=tmp_path)
    assert len(counted) == 1
    assert again.rows == first.rows
    # A grid in another order, with one value more, has the same points and two more.
    counted.clear()
    more: dict[str, Any] = {"cores": [4, 3, 2, 1], "predictor": ["last", "window:3"]}
    memweir.sweep(scenario, more, out=tmp_path)
    assert len(counted) == 2
    counted.clear()
    rerun = memweir.sweep(scenario, GRID, out=tmp_path, resume=False)
    assert len(counted) == 6 and rerun.rows == first.rows
    assert set(kept(partition).values()) == {6}, "the older files are gone"


class Again(ThreadPoolExecutor):
    """Runs a part of each task, then the task, then the task again: so do engines whose workers
    die while they run it, and with its result."""

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Any:
        work, points = arguments

        def run() -> Any:
            function(work, points[:1])
            function(work, points)
            return function(work, points)

        return super().submit(run)


def test_swept_keys_are_in_the_order_of_the_call(
    scenario: dict[str, Any], tmp_path: Path
) -> None:
    memweir.sweep(scenario, GRID, out=tmp_path)
    files(tmp_path)[0].unlink()
    turned = {key: GRID[key] for key in reversed(GRID)}
    rows = memweir.sweep(scenario, turned, out=tmp_path).rows
    assert {tuple(row)[:2] for row in rows} == {("predictor", "cores")}
    assert rows == memweir.sim(scenario, sweep=turned).rows


def test_a_task_that_runs_again_writes_no_point_twice(
    scenario: dict[str, Any], tmp_path: Path
) -> None:
    once = memweir.sweep(scenario, GRID, progress=False)
    with Again(2) as executor:
        swept = memweir.sweep(
            scenario, GRID, executor=executor, out=tmp_path, points_per_task=4, progress=False
        )
    assert swept.rows == once.rows
    assert len(files(tmp_path)) == 2 and set(kept(tmp_path).values()) == {6}


def test_tasks_have_several_points(scenario: dict[str, Any], tmp_path: Path) -> None:
    swept = memweir.sweep(scenario, GRID, out=tmp_path, points_per_task=4)
    assert len(files(tmp_path)) == 2
    assert swept.rows == memweir.sim(scenario, sweep=GRID).rows
    with pytest.raises(memweir.InputError, match="a task has a point"):
        memweir.sweep(scenario, GRID, out=tmp_path / "none", points_per_task=0)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("executor", [3, 0, "threads", ThreadPoolExecutor])
def test_what_is_no_executor_is_refused_before_anything_is_kept(
    scenario: dict[str, Any], tmp_path: Path, executor: Any
) -> None:
    out = tmp_path / "points"
    with pytest.raises(memweir.InputError, match="executor: .* is no executor"):
        memweir.sweep(scenario, GRID, executor=executor, out=out)
    assert not out.exists()


def test_command_and_package_share_a_directory(
    scenario: dict[str, Any], tmp_path: Path, counted: list[int]
) -> None:
    text = _native.toml_document(json.dumps(scenario))
    Path("s.toml").write_text(text)
    swept = ["--sweep", "predictor=last,window:3", "--sweep", "cores=2..4"]
    memweir.command("sim", "s.toml", *swept, "--shard", "1/2", "--out", tmp_path / "points")
    result = memweir.sweep(scenario, GRID, out=tmp_path / "points")
    assert len(counted) == 3 and result.rows == memweir.sim(scenario, sweep=GRID).rows
    memweir.command("sweep", "merge", tmp_path / "points")
    counted.clear()
    assert memweir.sweep("s.toml", GRID, out=tmp_path / "points").rows == result.rows
    assert counted == [] and len(files(tmp_path)) == 1
    said = memweir.command("sim", "s.toml", *swept, "--resume", "--out", tmp_path / "points")
    assert "0 points simulated, 6 were there" in said


def test_polars_reads_the_directory(scenario: dict[str, Any], tmp_path: Path) -> None:
    whole = memweir.sweep(scenario, GRID, out=tmp_path).to_polars()
    read = polars.read_parquet(tmp_path / "**/*.parquet", hive_partitioning=True)
    assert read["scenario"].unique().to_list() == [partitions(tmp_path)[0].name[9:]]
    by = ["cores", "predictor", "policy", "repetition"]
    compared = [*by, "turnaround_s", "quanta", "slowdown_max"]
    left = read.with_columns(polars.col("cores").cast(polars.Int64)).select(compared).sort(by)
    assert left.equals(whole.select(compared).sort(by))


class DiesOnThree(RoundRobin):
    """Kills its process on the machine with three cores, once."""

    name = "dies"
    version = "1"

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def select(self, view: View) -> Iterable[Candidate]:
        if view.cores + sum(job.cores for job in view.running) == 3 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().select(view)


def test_a_worker_that_dies_costs_its_points_alone(
    scenario: dict[str, Any], tmp_path: Path
) -> None:
    policies = [DiesOnThree(tmp_path / "mark")]
    grid = {"cores": [1, 2, 3, 4]}
    with ProcessPoolExecutor(1) as pool, pytest.raises(BrokenProcessPool):
        memweir.sweep(scenario, grid, policies=policies, executor=pool, out=tmp_path / "points")
    before = kept(tmp_path / "points")
    assert len(before) == 2, "those before the third"
    with ProcessPoolExecutor(1) as pool:
        swept = memweir.sweep(
            scenario, grid, policies=policies, executor=pool, out=tmp_path / "points"
        )
    assert swept.rows == memweir.sim(scenario, policies=policies, sweep=grid).rows
    after = kept(tmp_path / "points")
    assert len(after) == 4 and set(after.values()) == {2}, "nothing twice, nothing lost"


def test_other_content_has_other_keys(
    scenario: dict[str, Any], tmp_path: Path, counted: list[int]
) -> None:
    machine = tmp_path / "machine.toml"
    text = (
        'name = "m"\nsource = "s"\ncore_peak = 12e9\n[[nodes]]\ncores = 4\n'
        '[[memories]]\nmedium = "dram"\ncapacity = 5e9\n'
    )
    machine.write_text(text)
    out, cores = tmp_path / "out", {"cores": [2]}
    change: dict[str, Any] = {"machine": machine}
    memweir.sweep(scenario, cores, change, out=out)
    memweir.sweep(scenario, cores, change, out=out)
    assert len(counted) == 1
    machine.write_text(text.replace("5e9", "6e9"))
    memweir.sweep(scenario, cores, change, out=out)
    assert len(counted) == 2, "a file that the scenario names is part of its content"
    memweir.sweep(scenario, cores, {**change, "seed": 7}, out=out)
    assert len(counted) == 3 and len(partitions(out)) == 3


def test_policies_in_python_are_told_apart_by_version(
    scenario: dict[str, Any], tmp_path: Path, counted: list[int]
) -> None:
    for version, runs in [("1", 1), ("1", 1), ("2", 2)]:
        memweir.sweep(scenario, {"cores": [2]}, policies=[Versioned(version)], out=tmp_path)
        assert len(counted) == runs
    with pytest.raises(memweir.InputError, match="`in-order` has no `version`"):
        memweir.sweep(scenario, {"cores": [2]}, policies=[RoundRobin()], out=tmp_path)


class FailsOnThree(Versioned):
    """Fails on the machine with three cores."""

    def select(self, view: View) -> Iterable[Candidate]:
        if view.cores + sum(job.cores for job in view.running) == 3:
            raise ArithmeticError("three")
        return super().select(view)


def test_what_has_ended_is_kept_if_a_point_fails(
    scenario: dict[str, Any], tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(memweir.PolicyError, match="three"):
        memweir.sweep(
            scenario,
            {"cores": [1, 2, 3, 4]},
            policies=[FailsOnThree("1")],
            executor=executor,
            out=tmp_path,
        )
    (partition,) = partitions(tmp_path)
    cores = polars.scan_parquet(files(tmp_path)).select("cores").collect()["cores"].to_list()
    assert 1 in cores and 3 not in cores
    assert {path.suffix for path in partition.iterdir()} == {".json", ".parquet"}


def test_all_points_are_checked_before_the_first_runs(
    scenario: dict[str, Any], tmp_path: Path, counted: list[int]
) -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.sweep(scenario, {"cores": "2..5"}, out=tmp_path / "none")
    assert (refused.value.source, refused.value.key) == ("--sweep cores=5", "cores")
    assert counted == [] and not os.path.exists(tmp_path / "none")
    with pytest.raises(memweir.InputError, match="takes `2` twice"):
        memweir.sweep(scenario, {"cores": [2, 2]})


def test_a_directory_that_cannot_be_written_is_told_once(
    scenario: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as failed:
        memweir.sweep(scenario, {"cores": [2]}, out=tmp_path / "file" / "points")
    assert failed.value.strerror == "Not a directory"


def test_progress_counts_points(scenario: dict[str, Any]) -> None:
    seen: list[tuple[int, int]] = []
    memweir.sweep(scenario, GRID, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 6) for n in range(1, 7)]


PHONE = """
swaps = ["nvm", "flash"]
group = "browser"
dram_mib = 182
swap_mib = 512
"""


def test_a_sweep_of_paging_is_that_of_the_command(tmp_path: Path) -> None:
    grid = {"dram_mib": [128, 182], "swap_mib": [256, 512]}
    whole = memweir.page_sim(PHONE, sweep=grid)
    with ProcessPoolExecutor(2) as executor:
        swept = memweir.page_sweep(PHONE, grid, executor=executor, out=tmp_path / "out")
    assert isinstance(swept, memweir.PageResult) and swept.rows == whole.rows
    before = files(tmp_path / "out")
    file = tmp_path / "scenario"
    file.write_text(PHONE)
    options = ["--sweep", "dram_mib=128,182", "--sweep", "swap_mib=256,512", "--resume"]
    said = memweir.command("page", "sim", file, *options, "--out", tmp_path / "out")
    assert "0 points simulated, 4 were there" in said
    assert files(tmp_path / "out") == before
    assert memweir.page_sweep(PHONE, grid).rows == whole.rows


def test_signals_are_handled_while_many_points_are_read(scenario: dict[str, Any]) -> None:
    read = _scenario.read(scenario, None, {"seed": range(5000)})
    handled: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: handled.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        assert _native.points(read, []) == 5000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # Once before each part of a thousand. Without that, some come before and after the call.
    assert len(handled) >= 4
