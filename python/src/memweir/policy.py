"""Policies that are written in Python, and the view that they decide by.

A policy is an object with a method `select(view)` that returns the jobs to run next to those that
run in any case: elements of `view.queue`, in the order of choice, on at most `view.cores` cores.

    class Lightest:
        def select(self, view):
            return sorted(view.queue, key=lambda job: job.demand)[: view.cores]

    memweir.sim("mix.toml", policies=["os", Lightest()])
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, Union, runtime_checkable

from memweir._native import Candidate, Setup, View

__all__ = ["Candidate", "Policy", "Setup", "View", "name_of"]


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


def name_of(policy: object) -> str:
    """Returns the name of a policy in results."""
    name = getattr(policy, "name", None)
    if isinstance(name, str):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(policy).__name__).lower().strip("_")
