"""The notebooks run from their first cell to the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    loaded: Any = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in loaded.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "outputs are not kept in the repository"
    NotebookClient(loaded, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in cells)


def test_there_are_notebooks() -> None:
    names = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    assert names == {"policy-from-nothing", "slow-memory", "page-colors"}
