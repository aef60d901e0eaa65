"""Scenarios in the forms that callers may pass: a dict, a TOML text, or a path."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from memweir import _native
from memweir._errors import InputError

ScenarioLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A scenario: a dict, a TOML text (of several lines), or the path of a file."""

UNNAMED = "scenario"
"""Name of a scenario without a file, in refusals."""

_HELP = (
    "texts, booleans, finite numbers, whole ones of 64 bits, lists and dicts of them; "
    "no key at all for a value that is missing"
)

# Values of one key at most, as on the command line.
_MOST_VALUES = 10_000

Values = Union[str, Iterable[Any]]
"""Values of a swept key: a range as on the command line (`"1..8"`), or one by one."""


@dataclass(frozen=True)
class Scenario:
    """A scenario as the native module takes it."""

    name: str
    text: str
    directory: str
    set: list[tuple[str, str]]
    sweep: list[tuple[str, Union[str, list[str]]]]
    command: str = "sim"


def read(
    scenario: ScenarioLike,
    set: Mapping[str, Any] | None,
    sweep: Mapping[str, Values] | None,
    command: str = "sim",
) -> Scenario:
    """Reads a scenario of a command with the values in place of its own."""
    name, text, directory = _text(scenario)
    chosen, given = by_key(set, "set"), by_key(sweep, "sweep")
    replacements = [(key, _written(value, f"set {key}")) for key, value in chosen.items()]
    swept = [(key, _values(values, key)) for key, values in given.items()]
    return Scenario(name, text, directory, replacements, swept, command)


def by_key(given: Mapping[str, Any] | None, argument: str) -> dict[str, Any]:
    """Returns the values by key that an argument gives.

    Raises:
        InputError: it is no dict, or a key of it is no text.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        help = 'a dict of keys and values: `{"cores": ...}`'
        raise InputError("arguments", f"{given!r} is no dict", key=argument, help=help)
    for key in given:
        if not isinstance(key, str):
            help = "a text such as `cores` or `tasks[0].work_s`"
            raise InputError("arguments", f"{key!r} is no key", key=argument, help=help)
    return dict(given)


def _text(scenario: ScenarioLike) -> tuple[str, str, str]:
    if isinstance(scenario, Mapping):
        return UNNAMED, _toml(_native.toml_document, dict(scenario), UNNAMED), "."
    if isinstance(scenario, str) and "\n" in scenario:
        return UNNAMED, scenario, "."
    help = "a path, a dict, or a TOML text of several lines"
    if not isinstance(scenario, (str, os.PathLike)):
        raise InputError(UNNAMED, f"{scenario!r} is no scenario", help=help)
    path = Path(scenario)
    return str(path), text_of(path, help), str(path.parent)


def text_of(path: Path, help: str | None = None) -> str:
    """Returns the text of a file; `help` says what else may stand in its place.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), f"cannot be read: {reason}", help=help) from error


def _values(values: Values, key: str) -> str | list[str]:
    if isinstance(values, str):
        return values
    if not isinstance(values, Iterable):
        help = 'a range such as `"1..8"`, or a list of values'
        raise InputError(f"sweep {key}", f"{values!r} is no list", help=help)
    few = list(itertools.islice(values, _MOST_VALUES + 1))
    if len(few) > _MOST_VALUES:
        count = len(values) if isinstance(values, Sized) else f"more than {_MOST_VALUES}"
        reason, help = f"{count} values of one key are too many", f"at most {_MOST_VALUES}"
        raise InputError("arguments", reason, key="sweep", help=help)
    return [_written(value, f"sweep {key}") for value in few]


def _written(value: object, place: str) -> str:
    """Returns a value as one would write it on the command line: words need no quotes."""
    if isinstance(value, str):
        return value if value.strip() else json.dumps(value)
    return _toml(_native.toml_value, value, place)


def _toml(convert: Any, value: object, place: str) -> str:
    try:
        text: str = convert(json.dumps(_plain(value, place)))
    except ValueError as error:
        raise InputError(place, str(error), help=_HELP) from error
    return text


def _plain(value: Any, place: str, key: str | None = None) -> object:
    """Returns a value with paths, and numbers and arrays of numpy, as plain values.

    Raises:
        InputError: the value of this key within the place cannot be part of a scenario.
    """
    if isinstance(value, Mapping):
        inner = "" if key is None else f"{key}."
        return {str(name): _plain(one, place, f"{inner}{name}") for name, one in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_plain(one, place, f"{key or ''}[{at}]") for at, one in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    is_number = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    if is_number or isinstance(value, str) or isinstance(value, float) and math.isfinite(value):
        return value
    raise InputError(place, f"{value!r} is no value that a scenario can have", key=key, help=_HELP)
