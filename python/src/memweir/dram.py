"""Memories at bank level, command by command."""

from __future__ import annotations

import os
from typing import Any, Union

from memweir import _command
from memweir._result import CommandResult

__all__ = ["replay"]


def replay(trace: Union[str, "os.PathLike[str]"], memory: str, **options: Any) -> CommandResult:
    """Serves a trace of memory accesses (`memweir dram replay`).

    Args:
        trace: the path of the trace.
        memory: a shipped memory (`memweir dram list`) or a device file.
        options: options of the command, with underscores: `channels=2`, `mode="mlp:8"`,
            `scheduler="fcfs"`, `check=True`.
    """
    before = ["dram", "replay", "--memory", memory, *_command.arguments(options)]
    return CommandResult(*_command.report(before, [os.fspath(trace)]))
