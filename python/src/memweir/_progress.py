"""Progress of long calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Union

Report = Callable[[int, int], object]
"""A function that is called with the finished runs and their total."""

Progress = Union[bool, Report, None]
"""Progress of a call: `None` for a bar on a terminal, `True` for a bar elsewhere too, `False` for
none, or a function. Bars are those of tqdm: where it is not installed, none is shown."""

# Calls that end sooner show nothing.
_DELAY_S = 1.0


@contextmanager
def shown(progress: Progress, unit: str) -> Iterator[Report | None]:
    """Yields the function that shows the progress of a call, if anything is to be shown."""
    if callable(progress):
        yield progress
        return
    bar = None if progress is False else _bar(unit, on_terminals_only=progress is None)
    if bar is None:
        yield None
        return
    with bar:

        def report(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield report


def _bar(unit: str, *, on_terminals_only: bool):  # type: ignore[no-untyped-def]
    """Returns a bar of tqdm; `None` if it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(
        unit=unit, delay=_DELAY_S, leave=False, disable=None if on_terminals_only else False
    )
