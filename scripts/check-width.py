#!/usr/bin/env python3
"""Checks that no page of the site is wider than a narrow screen, in headless Chromium.

    scripts/check-width.py DIRECTORY [WIDTH]

Each page is opened in a frame of WIDTH pixels (390, a common phone). Tables, code and figures may
be wider, where they scroll by themselves; the page may not.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# The list of all pages in one is for printers; the table of contents and 404 are no pages.
LEFT_OUT = {"print.html", "toc.html", "404.html"}

# A page that hides what is too wide does not scroll, so the elements themselves are measured.
MEASURE = """<!doctype html><title>measure</title><pre id="result"></pre><script>
function scrolls(element) {
    return ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
}
function rightmost(page) {
    let right = page.documentElement.scrollWidth;
    const visit = (element) => {
        right = Math.max(right, Math.floor(element.getBoundingClientRect().right));
        if (!scrolls(element)) {
            [...element.children].forEach(visit);
        }
    };
    visit(page.querySelector("main") || page.body);
    return right;
}
(async () => {
    const widths = {};
    for (const page of PAGES) {
        const frame = document.createElement("iframe");
        frame.style = "width: WIDTHpx; height: 800px; border: 0";
        const loaded = new Promise((done) => { frame.onload = done; });
        frame.src = page;
        document.body.append(frame);
        await loaded;
        widths[page] = rightmost(frame.contentDocument);
        frame.remove();
    }
    document.getElementById("result").textContent = "[[" + JSON.stringify(widths) + "]]";
})();
</script>
"""


def widths(root: Path, width: int) -> dict[str, int]:
    """Returns the width in pixels that each page takes on a screen of `width`."""
    pages = sorted(path for path in root.glob("*.html") if path.name not in LEFT_OUT)
    names = json.dumps([path.resolve().as_uri() for path in pages])
    with tempfile.TemporaryDirectory() as scratch:
        measure = Path(scratch) / "measure.html"
        measure.write_text(MEASURE.replace("PAGES", names).replace("WIDTH", str(width)))
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += ["--allow-file-access-from-files", f"--user-data-dir={scratch}/profile"]
        command += ["--virtual-time-budget=120000", measure.as_uri()]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    _, _, rest = shown.partition('<pre id="result">[[')
    found, end, _ = rest.partition("]]</pre>")
    if not end:
        sys.exit("check-width.py: Chromium did not come to the end of the pages")
    by_address: dict[str, int] = json.loads(found)
    return {path.name: by_address[path.resolve().as_uri()] for path in pages}


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: check-width.py DIRECTORY [WIDTH]")
    root, width = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 390
    found = widths(root, width)
    if not found:
        sys.exit(f"check-width.py: {root}: there are no pages")
    wide = {name: taken for name, taken in found.items() if taken > width}
    for name, taken in wide.items():
        print(f"{name}: {taken} pixels on a screen of {width}", file=sys.stderr)
    if wide:
        sys.exit(f"check-width.py: {len(wide)} pages are too wide")
    print(f"check-width.py: {len(found)} pages fit into {width} pixels")


if __name__ == "__main__":
    main()
