"""Sweeps whose points run one by one, on any executor, and are kept as they end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Union

from memweir import _native, _progress, _scenario
from memweir._errors import InputError
from memweir._progress import Progress
from memweir._result import BankResult, SimResult
from memweir._scenario import Scenario, ScenarioLike, Values
from memweir._simulate import chosen_policies, without_lines_of_a_dict
from memweir.policy import Policy

Objects = list[tuple[str, object]]


@dataclass(frozen=True)
class _Point:
    """One point of a sweep: its key, and the scenario that runs it alone."""

    key: str
    at: list[tuple[str, str]]
    scenario: Scenario


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Values],
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, Policy]] | None = None,
    executor: Executor | None = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    resume: bool = True,
    progress: Progress = None,
) -> SimResult | BankResult:
    """Simulates a scenario at every point of a grid, each point by itself.

    All points are checked before the first runs. If one fails, those that have ended are kept.

    Args:
        scenario: as of `sim`.
        grid: keys and their values, as `sweep` of `sim`.
        set: values in place of the scenario's own.
        policies: as of `sim`. With `out`, a policy in Python needs an attribute `version`, a text
            that changes with its code.
        executor: where the points run, such as a `ProcessPoolExecutor`; threads of this process
            without it. Policies in Python must be known to its workers.
        out: directory in which each point is kept, under a name that follows from its content.
        resume: take the points that are in `out` already.
        progress: see `Progress`; counts points.
    """
    replaced, objects = chosen_policies(set, policies)
    read = _scenario.read(scenario, replaced, grid)
    with without_lines_of_a_dict(scenario):
        points = _points(read, objects, versioned=out is not None)
    directory = None if out is None else _directory(Path(out), read, points)
    reports = _kept(points, directory) if resume else {}
    missing = [point for point in points if point.key not in reports]
    with _progress.shown(progress, "point") as shown:
        for key, text in _run(missing, objects, executor):
            if directory is not None:
                _write(directory / f"{key}.json", text)
            reports[key] = json.loads(text)
            if shown is not None:
                shown(len(reports), len(points))
    return _merged([reports[point.key] for point in points])


def _points(read: Scenario, objects: Objects, *, versioned: bool) -> list[_Point]:
    """Checks every point, and returns them in the order of the grid."""
    versions = [_version(name, policy) for name, policy in objects] if versioned else []
    points = []
    for key, at in _native.points(read, objects):
        if versions:
            key = hashlib.sha256("\n".join([key, *versions]).encode()).hexdigest()[: len(key)]
        alone = replace(read, sweep=[(swept, [value]) for swept, value in at])
        points.append(_Point(key, at, alone))
    return points


def _version(name: str, policy: object) -> str:
    version = getattr(policy, "version", None)
    if isinstance(version, str):
        return version
    raise InputError(
        "arguments",
        f"the policy `{name}` has no `version`, so its results cannot be told from older ones",
        key="policies",
        help="an attribute `version`, a text that changes with its code; or no `out`",
    )


def _directory(path: Path, read: Scenario, points: list[_Point]) -> Path:
    """Makes the directory of a sweep, with a manifest of its points."""
    path.mkdir(parents=True, exist_ok=True)
    listed = [{"key": point.key, "at": dict(point.at)} for point in points]
    manifest = {"version": _native.__version__, "scenario": read.name, "points": listed}
    _write(path / "manifest.json", json.dumps(manifest, indent=1))
    return path


def _kept(points: list[_Point], directory: Path | None) -> dict[str, dict[str, Any]]:
    """Returns the reports of the points that are in the directory."""
    if directory is None:
        return {}
    files = ((point.key, directory / f"{point.key}.json") for point in points)
    return {key: json.loads(file.read_text()) for key, file in files if file.exists()}


def _write(path: Path, text: str) -> None:
    """Writes a file that appears whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _run(
    points: list[_Point], objects: Objects, executor: Executor | None
) -> Iterable[tuple[str, str]]:
    """Yields key and report of each point as it ends."""
    pool = executor or ThreadPoolExecutor(os.cpu_count())
    running: dict[Future[str], str] = {}
    try:
        for point in points:
            running[pool.submit(_alone, point.scenario, objects)] = point.key
        pending = list(running)
        while pending:
            ended, waiting = wait(pending, return_when=FIRST_COMPLETED)
            pending = list(waiting)
            for future in ended:
                yield running[future], future.result()
    finally:
        for future in running:
            future.cancel()
        if executor is None:
            pool.shutdown()


def _alone(scenario: Scenario, objects: Objects) -> str:
    """Runs one point, in whatever process the executor has."""
    return _native.sim(scenario, objects, 1, None)


def _merged(reports: list[dict[str, Any]]) -> SimResult | BankResult:
    merged = {**reports[0], "points": [report["points"][0] for report in reports]}
    return BankResult(merged) if merged.get("fidelity") == "bank" else SimResult(merged)
