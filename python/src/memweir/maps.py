"""Address maps and page colors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from memweir._errors import InputError
from memweir._native import AddressMap

__all__ = ["AddressMap", "read"]


def read(path: Union[str, "os.PathLike[str]"]) -> AddressMap:
    """Reads a map file, as `memweir map detect` and `memweir map import` write it.

    Raises:
        InputError: the file cannot be read or is not a map.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(os.fspath(path), f"cannot be read: {error}") from error
    return AddressMap.parse(text, os.fspath(path))
