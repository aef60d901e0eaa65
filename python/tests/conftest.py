"""Fixtures of all tests: small scenarios, and the repository's files."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Tests in the background of a script ignore SIGINT, and so do the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test in a directory of its own: the command leaves logs where it runs."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def root() -> Path:
    """Directory of the repository."""
    return ROOT


@pytest.fixture
def scenario() -> dict[str, Any]:
    """A scenario in which eight tasks of two kinds share four cores."""
    return {
        "machine": "iabw",
        "policies": ["os", "round-robin", "ideal-average"],
        "repetitions": 2,
        "optimum": "bound",
        "tasks": [
            {"program": "433.milc", "instances": 4, "work_s": 2},
            {"program": "444.namd", "instances": 4, "work_s": 2},
        ],
    }
