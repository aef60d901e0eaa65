"""Interruption of policies that do not return."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable


def interrupt(threads: Iterable[int]) -> None:
    """Raises `KeyboardInterrupt` in these threads, in each at its next step in Python."""
    error = ctypes.py_object(KeyboardInterrupt)
    for thread in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
