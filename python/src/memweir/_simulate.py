"""Simulations within this process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

from memweir import _native, _progress, _scenario
from memweir._errors import InputError
from memweir._progress import Progress
from memweir._result import BankResult, PageResult, SimResult
from memweir._scenario import ScenarioLike, Values
from memweir.policy import Policy, name_of


def sim(
    scenario: ScenarioLike,
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, Policy]] | None = None,
    sweep: Mapping[str, Values] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> SimResult | BankResult:
    """Simulates a scenario under each of its policies.

    Args:
        scenario: a dict, a TOML text, or a path; `memweir sim --example` prints one.
        set: values in place of the scenario's own: `{"machine.memories[0].capacity": 2e9}`.
        policies: policies in place of the scenario's own: names, and objects with `select(view)`.
        sweep: keys that take several values: `{"cores": "1..4", "quantum_ms": [20, 100]}`.
        threads: threads to run on; one per core without it. Policies in Python share one lock.
        progress: see `Progress`.

    Raises:
        InputError: the scenario is refused; nothing has run.
        PolicyError: a policy in Python failed; `__cause__` is its exception.
    """
    chosen, objects = chosen_policies(set, policies)
    read = _scenario.read(scenario, chosen, sweep)
    with without_lines_of_a_dict(scenario), _progress.shown(progress, "run") as shown:
        report = json.loads(_native.sim(read, objects, threads, shown))
    return BankResult(report) if report.get("fidelity") == "bank" else SimResult(report)


def page_sim(
    scenario: ScenarioLike,
    set: Mapping[str, Any] | None = None,
    *,
    sweep: Mapping[str, Values] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> PageResult:
    """Simulates applications in turn on DRAM and a swap area (`memweir page sim`).

    The arguments are those of `sim`.
    """
    read = _scenario.read(scenario, set, sweep)
    with without_lines_of_a_dict(scenario), _progress.shown(progress, "run") as shown:
        return PageResult(json.loads(_native.page_sim(read, threads, shown)))


def chosen_policies(
    set: Mapping[str, Any] | None, policies: Iterable[Union[str, Policy]] | None
) -> tuple[dict[str, Any], list[tuple[str, object]]]:
    """Returns the replacements that choose the policies, and the objects among them by name."""
    chosen = dict(set or {})
    if policies is None:
        return chosen, []
    if isinstance(policies, str):
        policies = [policies]
    names: list[str] = []
    objects: list[tuple[str, object]] = []
    for policy in policies:
        if isinstance(policy, str):
            names.append(policy)
            continue
        if isinstance(policy, type) or not callable(getattr(policy, "select", None)):
            raise InputError(
                "arguments",
                f"{policy!r} is no policy",
                key=f"policies[{len(names)}]",
                help="the name of a policy, or an object with a method `select(view)`",
            )
        names.append(name_of(policy))
        objects.append((name_of(policy), policy))
    return {**chosen, "policies": names}, objects


@contextmanager
def without_lines_of_a_dict(scenario: ScenarioLike) -> Iterator[None]:
    """Takes the line from the refusal of a dict, whose lines are nowhere to be seen."""
    try:
        yield
    except InputError as error:
        if isinstance(scenario, Mapping) and error.source == _scenario.UNNAMED:
            error.line = None
        raise
