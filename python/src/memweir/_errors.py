"""Exceptions of the package."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base of all exceptions that memweir raises on purpose."""


class InputError(Error):
    """Input that was refused before any work started."""

    source: str
    """File, or the argument."""
    line: int | None
    """Line in the file, counted from one."""
    key: str | None
    """Key, as it is written in the file (`tasks[2].program`)."""
    reason: str
    """Reason for the refusal."""
    help: str | None
    """Nearest valid choice."""

    def __init__(
        self,
        source: str,
        reason: str,
        line: int | None = None,
        key: str | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(source, reason, line, key, help)
        self.source = source
        self.line = line
        self.key = key
        self.reason = reason
        self.help = help

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        key = "" if self.key is None else f"{self.key}: "
        help = "" if self.help is None else f"\n  help: {self.help}"
        return f"{place}: {key}{self.reason}{help}"


class PolicyError(Error):
    """A policy in Python that raised an exception or made an impossible choice.

    `__cause__` is the exception with its traceback.
    """

    policy: str
    """Name of the policy."""
    quantum: int | None
    """Quantum in which it failed; `None` outside of quanta."""
    reason: str
    """Text of the exception."""
    report: dict[str, Any] | None
    """Measurements before the failure, in batches; `None` in simulations."""

    def __init__(self, policy: str, quantum: int | None, reason: str) -> None:
        super().__init__(policy, quantum, reason)
        self.policy = policy
        self.quantum = quantum
        self.reason = reason
        self.report = None

    def __str__(self) -> str:
        when = "" if self.quantum is None else f" in quantum {self.quantum}"
        return f"policy `{self.policy}` failed{when}: {self.reason}"


class CommandError(Error):
    """A call of the `memweir` command that gave no result."""

    message: str
    """Text of the command's refusal."""
    exit_code: int
    """Exit code of the command: the manual lists them."""
    report: dict[str, Any] | None
    """Measurements before the failure, such as the rounds of a comparison; `None` if there are
    none."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, exit_code)
        self.message = message
        self.exit_code = exit_code
        self.report = None

    def __str__(self) -> str:
        return self.message


class MachineError(CommandError):
    """Work that this machine cannot do: no such meter, mechanism or permission."""


class MissingPackageError(Error, ImportError):
    """An optional package that a call needs and that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        # The arguments from which another process makes it anew.
        super().__init__(package, extra)
        self._package, self._extra = package, extra

    def __str__(self) -> str:
        package, extra = self._package, self._extra
        return f"{package} is not installed; `pip install 'memweir[{extra}]'` adds it"
