"""Calls that run the bundled command: running and emulating programs, reproducing the papers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Union

from memweir import _command, _serve
from memweir._errors import InputError
from memweir._result import ProfileResult, ReproductionResult, RunResult
from memweir._simulate import named
from memweir.policy import Policy

Jobs = Union[str, "os.PathLike[str]", Sequence[Sequence[str]]]
"""The path of a jobs file, or commands, each with its arguments."""

# Between two commands on the command line.
_SEPARATOR = ":::"

# Options of `memweir reproduce` with which it writes no report.
_WITHOUT_REPORT = ("list", "list_points", "resume", "shard")


def command(*arguments: Union[str, int, float, "os.PathLike[str]"]) -> str:
    """Runs the bundled command and returns what it printed: `command("sim", "--list")`.

    Raises:
        InputError: wrong usage or wrong input; nothing was started.
        MachineError: this machine cannot do it.
        CommandError: any other failure.
    """
    return _command.call(_words(arguments, "command"))[0]


def profile(command: Sequence[str], **options: Any) -> ProfileResult:
    """Records the memory traffic of a program along its execution (`memweir profile`).

    Args:
        command: the program and its arguments.
        options: options of the command, with underscores: `meter="software"`, `no_store=True`,
            `recording="gzip.parquet"`, which a scenario can name.
    """
    before = ["profile", *_command.arguments(options)]
    return ProfileResult(*_command.report(before, ["--", *_words(command, "command")]))


def run(
    jobs: Jobs,
    *,
    policies: Iterable[Union[str, Policy]] | None = None,
    **options: Any,
) -> RunResult:
    """Runs a batch of jobs under a bandwidth-aware scheduler (`memweir run`).

    Args:
        jobs: the path of a jobs file, or commands, each with its arguments.
        policies: names, and objects with `select(view)`, that are compared; one alone is the policy
            of the batch.
        options: options of the command, with underscores: `policy="max-weight"`,
            `compare=["os", "ideal-average"]`, `repeat=5`.

    Raises:
        InputError: wrong usage or wrong input; nothing was started.
        PolicyError: a policy failed, and the jobs were ended; `__cause__` is its exception.
        MachineError: this machine cannot do it.
        CommandError: any other failure.
    """
    return _batch(["run"], jobs, policies, options)


def emulate(
    jobs: Jobs,
    *,
    machine: Union[str, "os.PathLike[str]"],
    policies: Iterable[Union[str, Policy]] | None = None,
    **options: Any,
) -> RunResult:
    """Runs a batch of jobs on a machine that one does not have (`memweir emulate`).

    Args:
        jobs: as of `run`.
        machine: a name, or the path of a file that ends in `.toml`.
        policies: as of `run`.
        options: options of the command, with underscores: `quantum="10ms"`, `verify=True`.

    Raises:
        as `run`.
    """
    return _batch(["emulate", "--machine", os.fspath(machine)], jobs, policies, options)


def _batch(
    command: list[str],
    jobs: Jobs,
    policies: Iterable[Union[str, Policy]] | None,
    options: dict[str, Any],
) -> RunResult:
    names: list[str] = []
    objects: list[tuple[str, object]] = []
    if policies is not None:
        names, objects = named(policies, "policies", "select(view)")
    chosen = {"policy" if len(names) == 1 else "compare": names} if names else {}
    after = [os.fspath(jobs)] if isinstance(jobs, (str, os.PathLike)) else _commands(jobs)
    with _serve.served(objects) as served:
        before = [*command, *served, *_command.arguments(chosen), *_command.arguments(options)]
        return RunResult(*_command.report(before, after))


def _commands(jobs: Sequence[Sequence[str]]) -> list[str]:
    """Returns commands as the command line separates them."""
    words: list[str] = []
    if not isinstance(jobs, Iterable):
        help = "the path of a jobs file, or a list of commands, each a list of words"
        raise InputError("arguments", f"{jobs!r} names no jobs", key="jobs", help=help)
    for number, command in enumerate(jobs):
        key = f"jobs[{number}]"
        job = _words(command, key)
        if _SEPARATOR in job:
            reason = f"`{_SEPARATOR}` separates commands, and is no argument of one"
            raise InputError("arguments", reason, key=key, help="a jobs file, which can have it")
        words += [_SEPARATOR, *job]
    return ["--", *words[1:]]


def _words(command: Iterable[object], key: str) -> list[str]:
    """Returns a command and its arguments."""
    help = "a list of the program and its arguments"
    if isinstance(command, str):
        help = f"{help}, or {['sh', '-c', command]}"
        raise InputError("arguments", f"{command!r} is a text", key=key, help=help)
    if not isinstance(command, Iterable):
        raise InputError("arguments", f"{command!r} is no command", key=key, help=help)
    names = (bytes, os.PathLike)
    return [os.fsdecode(word) if isinstance(word, names) else str(word) for word in command]


def reproduce(
    paper: str, out: Union[str, "os.PathLike[str]", None] = None, **options: Any
) -> ReproductionResult:
    """Repeats the figures of a paper in simulation (`memweir reproduce`).

    Args:
        paper: `iabw`, `hmmsched`, `bpm`, `drswap` or `beyond`.
        out: directory of `report.html` and `results.json`; a temporary one without it.
        options: options of the command: `figure=["9", "table1"]`, `quick=True`, `threads=4`.
    """
    for option in _WITHOUT_REPORT:
        if options.get(option):
            help = "`command`, which returns what is printed"
            raise InputError("arguments", "makes no report", key=option, help=help)
    directory = os.fspath(out) if out is not None else tempfile.mkdtemp(prefix="memweir-")
    arguments = ["reproduce", paper, "--out", directory, *_command.arguments(options)]
    text, exit_code = _command.call(arguments)
    report = json.loads((Path(directory) / "results.json").read_text(encoding="utf-8"))
    result = ReproductionResult(report, text, exit_code)
    result.directory = directory
    return result
