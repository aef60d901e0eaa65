"""Policies that are written in Python, and the views that they decide by.

A policy is an object with a method `select(view)` that returns the jobs to run next to those that
run in any case: elements of `view.queue`, in the order of choice, on at most `view.cores` cores.

    class Lightest:
        def select(self, view):
            return sorted(view.queue, key=lambda job: job.demand)[: view.cores]

    memweir.sim("mix.toml", policies=["os", Lightest()])

A color assignment is an object with a method `assign(programs, supply)` that returns the colors of
each program.

    class Halves:
        def assign(self, programs, supply):
            middle = len(supply.colors) // 2
            return [supply.colors[:middle], supply.colors[middle:]]

    memweir.sim("banks.toml", partitions=["none", Halves()])

A victim policy of paging is an object with a method `victim()` that returns the page that leaves
DRAM next.

    class Newest:
        def __init__(self):
            self.pages = {}

        def enter(self, page, why):
            self.pages[page] = why

        def leave(self, page):
            del self.pages[page]

        def victim(self):
            return self.pages.popitem()[0]

    memweir.page_sim("phone.toml", policies=["fifo", Newest()])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, Union, runtime_checkable

from memweir._native import Candidate, ColorSupply, Program, Setup, View

__all__ = [
    "Candidate",
    "ColorAssignment",
    "ColorSupply",
    "Policy",
    "Program",
    "Setup",
    "VictimPolicy",
    "View",
    "name_of",
]


@runtime_checkable
class Policy(Protocol):
    """A policy. Each run works on a deep copy of the object that was passed.

    Further members are optional: `name` (a text; else the class's name in kebab-case),
    `start(setup)`, which is called before a run with its `Setup`, and `target()`, which returns the
    bandwidth that the last selection aimed at, or `None`.
    """

    def select(self, view: View) -> Iterable[Union[Candidate, int]]:
        """Chooses jobs of `view.queue`, or their numbers, in the order of choice.

        Called once per quantum even when no job is waiting, and again whenever a core falls idle
        in mid-quantum. The head of the run queue has already been chosen, so no job starves.
        """
        ...


@runtime_checkable
class ColorAssignment(Protocol):
    """An assignment of page colors to programs. Each run works on a deep copy of the object.

    `name` is optional, as of a `Policy`.
    """

    def assign(self, programs: Sequence[Program], supply: ColorSupply) -> Iterable[Iterable[int]]:
        """Returns the colors of each program, in their order; two programs may share a color."""
        ...


@runtime_checkable
class VictimPolicy(Protocol):
    """A victim policy of paging. Each run works on a deep copy of the object that was passed.

    Further members are optional: `name`, as of a `Policy`, and methods that tell it what happens:

    - `start(pages)`: a run begins; pages have numbers below `pages`;
    - `enter(page, why)`: the page is in DRAM from now on, `"new"` or `"returned"` by a fault;
    - `leave(page)`: its process has freed a page in DRAM. It is not called for victims;
    - `wants_scan()`: asked before a victim is chosen. If it returns true, `see(page, seen)` is
      called for each page in DRAM, with `"idle"`, `"read"` or `"written"` since the last scan, and
      `scanned()` at the end.
    """

    def victim(self) -> int:
        """Chooses the page in DRAM that leaves it next; at least one page is there."""
        ...


def name_of(policy: object) -> str:
    """Returns the name of a policy in results."""
    name = getattr(policy, "name", None)
    if isinstance(name, str):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(policy).__name__).lower().strip("_")
