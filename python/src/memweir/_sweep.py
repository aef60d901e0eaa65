"""Sweeps whose points run on any executor and are kept as they end."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Union

from memweir import _native, _progress, _scenario
from memweir._errors import InputError
from memweir._progress import Progress
from memweir._result import BankResult, PageResult, SimResult
from memweir._scenario import Scenario, ScenarioLike, Values
from memweir._simulate import chosen_policies, swept_victims, without_lines_of_a_dict
from memweir.policy import ColorAssignment, Policy, VictimPolicy

# Tasks that a sweep is cut into, as long as each has a point, and not too many.
_TASKS = 128
_MOST_POINTS_PER_TASK = 64


class Submits(Protocol):
    """An executor: its `submit` returns a future with `result`, as in `concurrent.futures`."""

    def submit(self, function: Any, /, *arguments: Any) -> Any: ...


@dataclass(frozen=True)
class _Work:
    """Input of a worker beside the numbers of its points."""

    scenario: Scenario
    policies: list[tuple[str, object]]
    versions: list[str]
    partition: Path | None
    # Beginning of the names of this call's files, which another call does not choose.
    stem: str
    # Workers in other processes have a copy that nothing makes.
    stop: _native.StopRequest = field(default_factory=_native.StopRequest)


def sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Values],
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, Policy]] | None = None,
    partitions: Iterable[Union[str, ColorAssignment]] | None = None,
    executor: Executor | Submits | None = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    resume: bool = True,
    points_per_task: int | None = None,
    progress: Progress = None,
) -> SimResult | BankResult:
    """Simulates a scenario at every point of a grid, some points at a time.

    All points are checked before the first runs. If one fails, those that have ended are kept.

    Args:
        scenario: as of `sim`.
        grid: keys and their values, as `sweep` of `sim`.
        set: values in place of the scenario's own.
        policies: as of `sim`. With `out`, a policy in Python needs an attribute `version`, a text
            that changes with its code.
        partitions: as of `sim`, and as `policies`.
        executor: where the points run: a `ProcessPoolExecutor`, a `Client` of Dask, or whatever
            has `submit` and returns futures with `result`; threads of this process without it.
            Policies in Python must be known to its workers.
        out: directory of the sweep, which all workers can write to. The command's `sim --shard`
            and `sweep merge` use the same.
        resume: take the points that are in `out` already.
        points_per_task: points that a worker runs in turn, into one file; by default enough for
            128 tasks, at most 64.
        progress: see `Progress`; counts points.
    """
    replaced, objects = chosen_policies(set, grid, policies, partitions)
    read = _scenario.read(scenario, replaced, grid)
    with without_lines_of_a_dict(scenario):
        points = _swept(read, objects, executor, out, resume, points_per_task, progress)
    if "partitions" in points[0]:
        return BankResult({"scenario": read.name, "fidelity": "bank", "points": points})
    return SimResult(
        {
            "version": _native.__version__,
            "scenario": read.name,
            "points": points,
            "overall": [],
        }
    )


def page_sweep(
    scenario: ScenarioLike,
    grid: Mapping[str, Values],
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, VictimPolicy]] | None = None,
    executor: Executor | Submits | None = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    resume: bool = True,
    points_per_task: int | None = None,
    progress: Progress = None,
) -> PageResult:
    """Simulates a scenario of paging at every point of a grid, some points at a time.

    The arguments are those of `sweep`, and `policies` of `page_sim`; the command's
    `page sim --shard` uses the same directory.
    """
    swept, objects = swept_victims(grid, policies)
    read = _scenario.read(scenario, set, swept, "page sim")
    with without_lines_of_a_dict(scenario):
        points = _swept(read, objects, executor, out, resume, points_per_task, progress)
    return PageResult({"scenario": read.name, "points": points})


def _swept(
    read: Scenario,
    objects: list[tuple[str, object]],
    executor: Executor | Submits | None,
    out: Union[str, "os.PathLike[str]", None],
    resume: bool,
    points_per_task: int | None,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Runs the points of a sweep and returns them as its report has them."""
    submits = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not submits:
        help = "a `ProcessPoolExecutor`, a `Client` of Dask, or another object with `submit`"
        raise InputError("arguments", f"{executor!r} is no executor", key="executor", help=help)
    if points_per_task is not None and points_per_task < 1:
        help = "at least 1"
        raise InputError("arguments", "a task has a point", key="points_per_task", help=help)
    versions = [_version(name, policy) for name, policy in objects] if out is not None else []
    old: list[Path] = []
    keys: list[str] = []
    if out is None:
        partition, count = None, _native.points(read, objects)
        missing = list(range(count))
    else:
        begun = _native.begin(read, objects, versions, os.fspath(out), resume)
        partition, count, missing = begun
        old = [] if resume else sorted(partition.glob("*.parquet"))
    work = _Work(read, objects, versions, partition, f"points-{secrets.token_hex(8)}")
    texts = [""] * count
    with _progress.shown(progress, "point") as shown:
        done = count - len(missing)
        for numbers, reports in _run(work, _tasks(missing, points_per_task), executor):
            for number, report in zip(numbers, reports):
                texts[number] = report
            for _ in numbers:
                done += 1
                if shown is not None:
                    shown(done, count)
    if partition is not None:
        for path in old:
            with suppress(FileNotFoundError):
                path.unlink()
        keys, texts = _native.reports(read, partition)
    points = [json.loads(text) for text in texts]
    for point in points:
        # Points of a sweep that was begun with its keys in another order have them in that order.
        point["at"] = {key: point["at"][key] for key in keys or point["at"]}
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


def _tasks(points: list[int], points_per_task: int | None) -> list[list[int]]:
    """Cuts points into tasks."""
    if points_per_task is None:
        points_per_task = min(max(1, len(points) // _TASKS), _MOST_POINTS_PER_TASK)
    starts = range(0, len(points), points_per_task)
    return [points[start : start + points_per_task] for start in starts]


def _run(
    work: _Work, tasks: list[list[int]], executor: Executor | Submits | None
) -> Iterator[tuple[list[int], list[str]]]:
    """Yields the points of each task as it ends, with their reports if they are not in files."""
    pool = ThreadPoolExecutor(os.cpu_count()) if executor is None else executor
    running: dict[Any, list[int]] = {}
    try:
        for task in tasks:
            running[pool.submit(_points, work, task)] = task
        for future in _as_completed(running):
            yield running[future], future.result()
    finally:
        for future in running:
            # That of an engine may have `result` alone.
            if hasattr(future, "cancel"):
                future.cancel()
        work.stop.make()
        if executor is None and isinstance(pool, Executor):
            pool.shutdown()


def _as_completed(running: Mapping[Any, object]) -> Iterable[Any]:
    """Returns futures as they complete, or in their order if they are not of the standard library:
    all that those of other engines have in common is `result`."""
    if all(isinstance(future, Future) for future in running):
        return as_completed(running)
    return list(running)


def _points(work: _Work, points: list[int]) -> list[str]:
    """Runs points in turn, in whatever process the executor has.

    Some engines run a task again if a worker dies that had its result; its first point tells the
    task, whose file has the points already.
    """
    task = f"{work.stem}-{points[0]:08}"
    file = None if work.partition is None else (work.partition, task)
    return _native.run_points(
        work.scenario, work.policies, work.versions, points, file, work.stop
    )
