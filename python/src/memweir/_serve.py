"""Policies of this process that the command asks.

The command connects to a Unix socket once for each run, and asks in lines of JSON
(`docs/policy-programs.md`). The objects stay in this process; a thread for each of them answers.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from memweir._errors import PolicyError
from memweir._native import ServedPolicy

# Bytes of a directory in which a socket can be: its whole path has at most 107.
_LONGEST_DIRECTORY = 80


class _Server:
    """Answers for one policy."""

    def __init__(self, name: str, policy: object, path: Path) -> None:
        self.failure: Exception | None = None
        self._name, self._policy = name, policy
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        # A policy that never returns must not keep the interpreter from its end.
        threading.Thread(target=self._serve, name=f"memweir {name}", daemon=True).start()

    def close(self) -> None:
        """Ends the wait for further runs."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                with connection, connection.makefile(encoding="utf-8", newline="\n") as lines:
                    for answer in self._answers(lines):
                        connection.sendall(answer.encode())
            except OSError:
                # The command has ended in the middle of a run, and says why.
                continue

    def _answers(self, lines: TextIO) -> Iterator[str]:
        """Answers the questions of one run."""
        served: ServedPolicy | None = None
        setup = lines.readline()
        for question in lines:
            try:
                served = served or ServedPolicy(self._name, self._policy, setup)
                yield served.answer(question)
            except Exception as error:
                self.failure = self.failure or error
                yield ServedPolicy.failure(repr(error.__cause__ or error))


@contextmanager
def served(objects: Sequence[tuple[str, object]]) -> Iterator[list[str]]:
    """Yields the options by which the command reaches these policies.

    Raises:
        PolicyError: one of them failed; `__cause__` is its exception.
    """
    temporary = tempfile.gettempdir()
    # As it is of jobs on some clusters.
    is_too_long = len(os.fsencode(temporary)) > _LONGEST_DIRECTORY
    within = "/tmp" if is_too_long else temporary
    with tempfile.TemporaryDirectory(prefix="memweir-", dir=within) as directory:
        servers: list[_Server] = []
        options: list[str] = []
        failed: Exception | None = None
        try:
            for number, (name, policy) in enumerate(objects):
                path = Path(directory) / str(number)
                servers.append(_Server(name, policy, path))
                options += ["--policy-program", f"{name}=unix:{path}"]
            yield options
        except Exception as error:
            failed = next((server.failure for server in servers if server.failure), error)
            if isinstance(failed, PolicyError) and isinstance(error, PolicyError):
                # The command has the measurements, the server the traceback.
                failed.report = error.report
        finally:
            for server in servers:
                server.close()
    if failed is not None:
        raise failed
