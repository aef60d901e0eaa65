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
from memweir.policy import ColorAssignment, Policy, VictimPolicy, name_of


def sim(
    scenario: ScenarioLike,
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, Policy]] | None = None,
    partitions: Iterable[Union[str, ColorAssignment]] | None = None,
    sweep: Mapping[str, Values] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> SimResult | BankResult:
    """Simulates a scenario under each of its policies, or partitions at bank level.

    Args:
        scenario: a dict, a TOML text, or a path; `memweir sim --example` prints one.
        set: values in place of the scenario's own: `{"machine.memories[0].capacity": 2e9}`.
        policies: policies in place of the scenario's own: names, and objects with `select(view)`.
        partitions: partitions of a bank-level scenario in place of its own: names, and objects
            with `assign(programs, supply)`.
        sweep: keys that take several values: `{"cores": "1..4", "quantum_ms": [20, 100]}`.
        threads: threads to run on; one per core without it. Policies in Python share one lock.
        progress: see `Progress`.

    Raises:
        InputError: the scenario is refused; nothing has run.
        PolicyError: a policy in Python failed; `__cause__` is its exception.
    """
    chosen, objects = chosen_policies(set, sweep, policies, partitions)
    read = _scenario.read(scenario, chosen, sweep)
    with without_lines_of_a_dict(scenario), _progress.shown(progress, "run") as shown:
        report = json.loads(_native.sim(read, objects, threads, shown))
    return BankResult(report) if report.get("fidelity") == "bank" else SimResult(report)


def page_sim(
    scenario: ScenarioLike,
    set: Mapping[str, Any] | None = None,
    *,
    policies: Iterable[Union[str, VictimPolicy]] | None = None,
    sweep: Mapping[str, Values] | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> PageResult:
    """Simulates applications in turn on DRAM and a swap area (`memweir page sim`).

    Args:
        scenario: as of `sim`.
        set: as of `sim`.
        policies: victim policies that the key `policy` takes in turn: names, and objects with
            `victim()`.
        sweep: as of `sim`.
        threads: as of `sim`.
        progress: as of `sim`.

    Raises:
        InputError: the scenario is refused; nothing has run.
        PolicyError: a policy in Python failed; `__cause__` is its exception.
    """
    swept, objects = swept_victims(sweep, policies)
    read = _scenario.read(scenario, set, swept, "page sim")
    with without_lines_of_a_dict(scenario), _progress.shown(progress, "run") as shown:
        return PageResult(json.loads(_native.sim(read, objects, threads, shown)))


def swept_victims(
    sweep: Mapping[str, Values] | None, policies: Iterable[Union[str, VictimPolicy]] | None
) -> tuple[dict[str, Values], list[tuple[str, object]]]:
    """Returns the sweep with the victim policies among its keys, and the objects by name."""
    swept: dict[str, Values] = _scenario.by_key(sweep, "sweep")
    if policies is None:
        return swept, []
    if "policy" in swept:
        help = "`policies` alone, which takes names and objects"
        raise InputError("arguments", "is swept already", key="policies", help=help)
    names, objects = named(policies, "policies", "victim()")
    return {**swept, "policy": names}, objects


def chosen_policies(
    set: Mapping[str, Any] | None,
    sweep: Mapping[str, Values] | None,
    policies: Iterable[Union[str, Policy]] | None,
    partitions: Iterable[Union[str, ColorAssignment]] | None = None,
) -> tuple[dict[str, Any], list[tuple[str, object]]]:
    """Returns the replacements that choose policies or partitions, and the objects among them by
    name."""
    if policies is not None and partitions is not None:
        help = "`policies` choose who runs, `partitions` divide the banks among all"
        raise InputError("arguments", "are for different scenarios", key="partitions", help=help)
    swept = _scenario.by_key(sweep, "sweep")
    for key, given in (("policies", policies), ("partitions", partitions)):
        if given is not None and key in swept:
            raise InputError("arguments", "are swept already", key=key, help="one of the two")
    chosen = _scenario.by_key(set, "set")
    if policies is not None:
        chosen["policies"], objects = named(policies, "policies", "select(view)")
    elif partitions is not None:
        method = "assign(programs, supply)"
        chosen["partitions"], objects = named(partitions, "partitions", method)
    else:
        objects = []
    return chosen, objects


def named(
    chosen: Iterable[object], key: str, method: str
) -> tuple[list[str], list[tuple[str, object]]]:
    """Returns the names of policies, and the objects among them by name."""
    names: list[str] = []
    objects: list[tuple[str, object]] = []
    policies = [chosen] if isinstance(chosen, str) else chosen
    policies = list(policies) if isinstance(policies, Iterable) else []
    if not policies:
        help = f"a list of names, and of objects with a method `{method}`"
        raise InputError("arguments", f"{chosen!r} names no policy", key=key, help=help)
    for policy in policies:
        if isinstance(policy, str):
            names.append(policy)
            continue
        called = getattr(policy, method.partition("(")[0], None)
        if isinstance(policy, type) or not callable(called):
            raise InputError(
                "arguments",
                f"{policy!r} is no policy",
                key=f"{key}[{len(names)}]",
                help=f"the name of a policy, or an object with a method `{method}`",
            )
        names.append(name_of(policy))
        objects.append((name_of(policy), policy))
    return names, objects


@contextmanager
def without_lines_of_a_dict(scenario: ScenarioLike) -> Iterator[None]:
    """Takes the line from the refusal of a dict, whose lines are nowhere to be seen."""
    try:
        yield
    except InputError as error:
        if isinstance(scenario, Mapping) and error.source == _scenario.UNNAMED:
            error.line = None
        raise
