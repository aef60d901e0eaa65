"""Sweeps: the points of `sim`, on any executor, kept and taken up again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import memweir
import pytest
from memweir import _native
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
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the simulations of this process."""
    calls: list[str] = []
    original = _native.sim

    def sim(*arguments: Any) -> str:
        calls.append(arguments[0].name)
        return original(*arguments)

    monkeypatch.setattr(_native, "sim", sim)
    return calls


def points(directory: Path) -> set[str]:
    """Returns the names of all files of a sweep."""
    return {path.name for path in directory.iterdir()}


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


def test_a_sweep_is_taken_up_where_it_ended(
    scenario: dict[str, Any], tmp_path: Path, counted: list[str]
) -> None:
    first = memweir.sweep(scenario, GRID, out=tmp_path)
    assert len(counted) == 6 and len(points(tmp_path)) == 7
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert {f"{point['key']}.json" for point in manifest["points"]} | {"manifest.json"} == points(
        tmp_path
    )
    lost = manifest["points"][4]["key"]
    (tmp_path / f"{lost}.json").unlink()
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
    memweir.sweep(scenario, GRID, out=tmp_path, resume=False)
    assert len(counted) == 6


def test_other_content_has_other_keys(
    scenario: dict[str, Any], tmp_path: Path, counted: list[str]
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
    assert len(counted) == 3


def test_policies_in_python_are_told_apart_by_version(
    scenario: dict[str, Any], tmp_path: Path, counted: list[str]
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
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert f"{manifest['points'][0]['key']}.json" in points(tmp_path)
    assert f"{manifest['points'][2]['key']}.json" not in points(tmp_path)
    assert not any("partial" in name for name in points(tmp_path))


def test_all_points_are_checked_before_the_first_runs(
    scenario: dict[str, Any], tmp_path: Path, counted: list[str]
) -> None:
    with pytest.raises(memweir.InputError) as refused:
        memweir.sweep(scenario, {"cores": "2..5"}, out=tmp_path / "none")
    assert (refused.value.source, refused.value.key) == ("--sweep cores=5", "cores")
    assert counted == [] and not os.path.exists(tmp_path / "none")
    with pytest.raises(memweir.InputError, match="takes `2` twice"):
        memweir.sweep(scenario, {"cores": [2, 2]})


def test_progress_counts_points(scenario: dict[str, Any]) -> None:
    seen: list[tuple[int, int]] = []
    memweir.sweep(scenario, GRID, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 6) for n in range(1, 7)]
