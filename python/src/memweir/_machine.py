"""Calls that run the bundled command: measuring and running programs, reproducing the papers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from memweir import _command
from memweir._result import ProfileResult, ReproductionResult, RunResult


def command(*arguments: Union[str, "os.PathLike[str]"]) -> str:
    """Runs the bundled command and returns what it printed: `command("sim", "--list")`.

    Raises:
        InputError: wrong usage or wrong input; nothing was started.
        MachineError: this machine cannot do it.
        CommandError: any other failure.
    """
    return _command.call([os.fspath(argument) for argument in arguments])[0]


def profile(command: Sequence[str], **options: Any) -> ProfileResult:
    """Records the memory traffic of a program along its execution (`memweir profile`).

    Args:
        command: the program and its arguments.
        options: options of the command, with underscores: `meter="software"`, `no_store=True`,
            `recording="gzip.parquet"`, which a scenario can name.
    """
    before = ["profile", *_command.arguments(options)]
    return ProfileResult(*_command.report(before, ["--", *map(str, command)]))


def run(
    jobs: Union[str, "os.PathLike[str]", Sequence[Sequence[str]]], **options: Any
) -> RunResult:
    """Runs a batch of jobs under a bandwidth-aware scheduler (`memweir run`).

    Args:
        jobs: the path of a jobs file, or commands, each with its arguments.
        options: options of the command, with underscores: `policy="max-weight"`,
            `compare=["os", "ideal-average"]`, `repeat=5`.
    """
    before = ["run", *_command.arguments(options)]
    if isinstance(jobs, (str, os.PathLike)):
        return RunResult(*_command.report(before, [os.fspath(jobs)]))
    commands: list[str] = []
    for command in jobs:
        commands += [":::", *map(str, command)] if commands else map(str, command)
    return RunResult(*_command.report(before, ["--", *commands]))


def reproduce(
    paper: str, out: Union[str, "os.PathLike[str]", None] = None, **options: Any
) -> ReproductionResult:
    """Repeats the figures of a paper in simulation (`memweir reproduce`).

    Args:
        paper: `iabw`, `hmmsched`, `bpm`, `drswap` or `beyond`.
        out: directory of `report.html` and `results.json`; a temporary one without it.
        options: options of the command: `figure=["9", "table1"]`, `quick=True`, `threads=4`.
    """
    directory = os.fspath(out) if out is not None else tempfile.mkdtemp(prefix="memweir-")
    arguments = ["reproduce", paper, "--out", directory, *_command.arguments(options)]
    text, exit_code = _command.call(arguments)
    report = json.loads((Path(directory) / "results.json").read_text(encoding="utf-8"))
    result = ReproductionResult(report, text, exit_code)
    result.directory = directory
    return result
