"""Calls of the bundled `memweir` command.

Work that starts programs, blocks them or counts their traffic belongs to the command: its jobs are
children of a guardian that lets them go if anything dies, which a Python process with threads and
signal handlers of its own cannot promise.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from memweir._errors import CommandError, InputError, MachineError, PolicyError

# Names another command than the one of the package.
_VARIABLE = "MEMWEIR_COMMAND"

# Options that are given once for each value.
_REPEATED = {"policy_program"}


def path() -> str:
    """Returns the path of the command that `MEMWEIR_COMMAND` names, or of the bundled one.

    Raises:
        CommandError: there is none.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    for candidate in (_of_distribution(), Path(sysconfig.get_path("scripts")) / "memweir"):
        if candidate is not None and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("memweir")
    if found is None:
        message = f"the command `memweir` was not found; install the wheel or set {_VARIABLE}"
        raise CommandError(message, 127)
    return found


def _of_distribution() -> Path | None:
    try:
        files = metadata.files("memweir") or []
    except metadata.PackageNotFoundError:
        return None
    scripts = (file for file in files if file.name == "memweir" and file.parent.name == "bin")
    return next((Path(str(file.locate())).resolve() for file in scripts), None)


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Converts options of Python to those of the command: `no_store=True` to `--no-store`."""
    converted: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        # Of a value of numpy, which is neither True nor a list.
        value = value.tolist() if hasattr(value, "tolist") else value
        if value is True:
            converted.append(option)
        elif isinstance(value, (list, tuple)) and name in _REPEATED:
            for one in value:
                converted += [option, str(one)]
        elif isinstance(value, (list, tuple)):
            converted += [option, ",".join(map(str, value))]
        elif value is not None and value is not False:
            converted += [option, str(value)]
    return converted


def report(before: Sequence[str], after: Sequence[str] = ()) -> tuple[dict[str, Any], str, int]:
    """Runs the command with `--json` between these arguments.

    Returns the report, the text that it printed, and the exit code.

    Raises:
        InputError: wrong usage or wrong input; nothing was started.
        MachineError: this machine cannot do it.
        CommandError: any other failure.
    """
    with tempfile.TemporaryDirectory(prefix="memweir-") as directory:
        file = Path(directory) / "report.json"
        try:
            text, exit_code = call([*before, "--json", str(file), *after])
        except (PolicyError, CommandError) as error:
            if file.exists():
                error.report = json.loads(file.read_text(encoding="utf-8"))
            raise
        return json.loads(file.read_text(encoding="utf-8")), text, exit_code


def call(command: Sequence[str]) -> tuple[str, int]:
    """Runs the command; returns the text that it printed and the exit code, 0 or 1."""
    program = path()
    try:
        # In a session of its own, Ctrl-C reaches it once: from here.
        process = subprocess.Popen(
            [program, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"cannot start {program}: {error.strerror}", 127) from error
    try:
        text, errors = process.communicate()
    except BaseException:
        _end(process)
        raise
    if process.returncode in (0, 1) and not errors.startswith("error: "):
        return text, process.returncode
    raise failure(errors, process.returncode)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the command, which lets its jobs go first, or at once by a second Ctrl-C."""
    while True:
        try:
            process.send_signal(signal.SIGINT)
            process.communicate()
        except KeyboardInterrupt:
            continue
        return


_REFUSAL = re.compile(
    r"memweir: (?P<source>.+?)(?::(?P<line>\d+))?: (?:(?P<key>[\w.\[\]-]+): )?(?P<reason>.+)"
)


_POLICY = re.compile(
    r"memweir: policy `(?P<policy>.+?)` failed(?: in quantum (?P<quantum>\d+))?: (?P<reason>.+)"
)


_HELP = re.compile(r"  (?:help|tip): (.*)")


def failure(errors: str, exit_code: int) -> Exception:
    """Returns the exception for a failed call with this standard error."""
    lines = errors.strip().splitlines() or [f"memweir ended with exit code {exit_code}"]
    said = [line for line in lines if line.startswith("memweir: ")]
    # A refusal of the command line ends at the first empty line.
    message = said[-1] if said else " ".join(map(str.strip, itertools.takewhile(str.strip, lines)))
    help = next((found[1] for line in lines if (found := _HELP.match(line))), None)
    if exit_code == 2:
        found = _REFUSAL.fullmatch(message)
        if found is None:
            return InputError("command line", message.removeprefix("error: "), help=help)
        line = found["line"]
        return InputError(
            found["source"], found["reason"], int(line) if line else None, found["key"], help
        )
    policy = _POLICY.fullmatch(message) if exit_code == 6 else None
    if policy is not None:
        quantum = policy["quantum"]
        return PolicyError(policy["policy"], int(quantum) if quantum else None, policy["reason"])
    kind = MachineError if exit_code == 3 else CommandError
    return kind("\n".join(lines).removeprefix("memweir: "), exit_code)
