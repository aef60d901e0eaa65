"""The code of the tutorial about policies runs, and prints what the page shows."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any



def blocks(page: str) -> list[tuple[str, str | None]]:
    """Returns each block of Python of a page, with the output that the page shows for it."""
    fenced = page.split("```")[1::2]
    found: list[tuple[str, str | None]] = []
    for block in fenced:
        language, _, text = block.partition("\n")
        if language == "python":
            found.append((text, None))
        elif language == "text" and found:
            found[-1] = (found[-1][0], text)
    return found


def test_blocks_are_found_with_their_output() -> None:
    page = "```python\na\n```\n\n```text\n1\n```\n```sh\nno\n```\n```python\nb\n```\n"
    assert blocks(page) == [("a\n", "1\n"), ("b\n", None)]


def test_the_tutorial_prints_what_it_shows(root: Path) -> None:
    page = (root / "docs/tutorial-policy.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "tutorial"}
    for code, shown in blocks(page):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "tutorial-policy.md", "exec"), names)
        assert shown is None or printed.getvalue() == shown
