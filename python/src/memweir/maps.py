"""Address maps and page colors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from memweir._native import AddressMap
from memweir._scenario import text_of

__all__ = ["AddressMap", "read"]


def read(path: Union[str, "os.PathLike[str]"]) -> AddressMap:
    """Reads a map file, as `memweir map detect` and `memweir map import` write it.

    Raises:
        InputError: the file cannot be read or is not a map.
    """
    return AddressMap.parse(text_of(Path(path)), os.fspath(path))
