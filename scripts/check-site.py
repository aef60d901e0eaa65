#!/usr/bin/env python3
"""Checks the links of the manual's pages as they are rendered.

    scripts/check-site.py DIRECTORY

Every link, image, script and style of a page leads to a file below DIRECTORY, and every anchor to
an element of its page. Addresses of the network are not visited. The pages below `api` come from
rustdoc and pdoc: links to them are checked, and theirs are not.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids of a page, and the targets of its links."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.ids.add(value)
            if value and name in ("href", "src"):
                self.targets.add(value)


def faults(root: Path) -> list[str]:
    """Returns a line for each link that leads nowhere."""
    parsed: dict[Path, Page] = {}

    def page(path: Path) -> Page:
        if path not in parsed:
            parsed[path] = Page(path)
        return parsed[path]

    found = []
    for path in sorted(root.glob("*.html")):
        # Its links start at the root of a server.
        if path.name == "404.html":
            continue
        for target in sorted(page(path).targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if file.is_dir():
                file /= "index.html"
            if not file.is_file() or root.resolve() not in file.parents:
                found.append(f"{path.name}: {target}: there is no such file")
            elif parts.fragment and file.suffix == ".html":
                if unquote(parts.fragment) not in page(file).ids:
                    found.append(f"{path.name}: {target}: there is no such anchor")
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: check-site.py DIRECTORY")
    root = Path(sys.argv[1])
    if not (root / "index.html").is_file():
        sys.exit(f"check-site.py: {root}: not a site, it has no index.html")
    found = faults(root)
    for fault in found:
        print(fault, file=sys.stderr)
    if found:
        sys.exit(f"check-site.py: {len(found)} links lead nowhere")
    print(f"check-site.py: every link leads somewhere, on {len(list(root.glob('*.html')))} pages")


if __name__ == "__main__":
    main()
