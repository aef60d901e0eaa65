"""Address maps and page colors: as the command tells them."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
from pathlib import Path

import memweir
import pytest
from memweir import _command

PLACES = [0, 0x1000, 0x2F000, 0x1234_5678, 0x1_FFFF_FFC0]


@pytest.fixture
def file(root: Path) -> Path:
    """The map of the Core i7-860."""
    return root / "crates/study/data/bank-machines/i7-860-map.toml"


def test_places_are_those_of_the_command(file: Path) -> None:
    read = memweir.maps.read(file)
    shown = subprocess.run(
        [_command.path(), "map", "decode", str(file), *map(str, PLACES), "--json", "-"],
        check=True,
        stdout=subprocess.PIPE,
    )
    expected = json.loads(shown.stdout)["places"]
    colors = read.color_of(PLACES)
    for place, color, told in zip(read.decode(PLACES), colors, expected):
        assert int(told.pop("address"), 16) == place.pop("address")
        assert told.pop("color") == color
        assert {key: value for key, value in told.items() if value is not None} == place


def test_a_map_has_colors_and_functions(file: Path) -> None:
    read = memweir.maps.read(file)
    assert read.colors() == 32
    assert read.colors(2 << 20) < 32
    assert len(set(read.color_of(range(0, 64 << 20, 4096)))) == 32
    assert {role for role, _ in read.functions} <= {"channel", "rank", "bank", "bank-group", "set"}
    assert ("channel", [6]) in read.functions
    assert "bank functions" in repr(read)


def test_a_map_is_copied_and_reaches_other_processes(file: Path) -> None:
    read = memweir.maps.read(file)
    for again in (copy.deepcopy(read), pickle.loads(pickle.dumps(read))):
        assert again == read and len({again, read}) == 1
        assert (again.name, again.functions) == (read.name, read.functions)
        assert again.decode(PLACES) == read.decode(PLACES)
    text = file.read_text(encoding="utf-8")
    other = memweir.maps.AddressMap.parse(text.replace("bits = [13]", "bits = [13, 18]"), "other")
    assert other != read and read != text


def test_wrong_maps_and_pages_are_refused(file: Path, tmp_path: Path) -> None:
    none = tmp_path / "none.toml"
    with pytest.raises(memweir.InputError) as refused:
        memweir.maps.read(none)
    assert str(refused.value) == f"{none}: cannot be read: No such file or directory"
    broken = tmp_path / "broken.toml"
    broken.write_text(file.read_text().replace("bits", "bitz"))
    with pytest.raises(memweir.InputError) as refused:
        memweir.maps.read(broken)
    assert refused.value.source == str(broken)
    read = memweir.maps.read(file)
    for page in (5000, 1 << 31):
        with pytest.raises(ValueError, match="powers of 2 from 4096 to 1073741824"):
            read.colors(page)
    for call in (read.decode, read.color_of):
        with pytest.raises(ValueError, match="beyond the 33 address bits"):
            call([0x2_0000_0040])
