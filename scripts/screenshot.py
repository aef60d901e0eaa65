#!/usr/bin/python3
"""Draws `memweir top` as it looks in a real terminal: a batch of real programs, emulated on the
four cores of experiments/max-weight/emulated, and played back in tmux.

    screenshot.py MEMWEIR OUT.svg        after scripts/setup.sh screenshot
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

MACHINE = Path(__file__).resolve().parent.parent / "experiments/max-weight/emulated/four-cores.toml"
COLUMNS, ROWS = 100, 17
# The screen is taken as soon as the time of the batch begins like this.
AT = " 0.4"
PYTHON = ["python3", "-S", "-c"]
JOBS = {
    "count": [*PYTHON, "b = bytes(24 << 20); print([b.count(i) for i in range(1, 5)])"],
    "copy": [*PYTHON, "b = bytes(16 << 20)\nfor i in range(20): b = bytearray(b)"],
    "copy-long": [*PYTHON, "b = bytes(16 << 20)\nfor i in range(40): b = bytearray(b)"],
    "reverse": [*PYTHON, "x = list(range(400000))\nfor i in range(60): x.reverse()"],
    "reverse-long": [*PYTHON, "x = list(range(800000))\nfor i in range(60): x.reverse()"],
    "hash": ["perl", "-e", "my %h; $h{$_ % 200003} += $_ for 1..400000; print scalar(keys %h)"],
    "sort": ["perl", "-e", "@x = sort { $a <=> $b } map { ($_ * 7919) % 1000003 } 1..60000; print $x[0]"],
    "sum": ["perl", "-e", "$s += $_ for 1..4000000; print $s"],
}
# The peak of the emulated machine, as a calibration would tell it.
CALIBRATION = """format = 1
date = "2026-01-01T00:00:00Z"
effort = "quick"
kernel = "copy"
[machine]
cpu = "four emulated cores"
cores = 4
memory = 8589934592
[peak]
bandwidth = 5.12e9
saturation = 5.12e9
kernel = "copy"
instances = 4
[target]
status = "not-measurable"
reason = "the machine is emulated"
"""
# That of Rich without its window and the fonts that it loads from elsewhere.
SVG = """<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
{lines}
</defs>
<rect width="{terminal_width}" height="{terminal_height}" fill="#292929"/>
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


def played_back(memweir, directory):
    """The screen with its colors, in the middle of the batch."""
    # Perl would seed its hashes from /dev/urandom, which is the host's.
    job = '[[jobs]]\nname = "{}"\ncommand = {}\nenv = {{ PERL_HASH_SEED = "0" }}\n'.format
    text = "".join(job(name, json.dumps(command)) for name, command in JOBS.items())
    (directory / "jobs.toml").write_text(text)
    emulate = [memweir, "emulate", "--machine", MACHINE, "--quantum", "10ms", "--timeline", "batch.csv"]
    subprocess.run([*emulate, "jobs.toml"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    (directory / "memweir").mkdir()
    (directory / "memweir/platform.toml").write_text(CALIBRATION)

    surroundings = {**os.environ, "LC_ALL": "C.UTF-8", "XDG_DATA_HOME": str(directory)}
    tmux = ["tmux", "-f", "/dev/null", "-u", "-S", str(directory / "tmux")]

    def call(*arguments):
        done = subprocess.run([*tmux, *arguments], env=surroundings, cwd=directory, check=True, capture_output=True)
        return done.stdout.decode()

    top = f"{memweir} top batch.csv"
    call("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), top, ";", "set", "-g", "status", "off")
    try:
        call("send-keys", "-", "-", "-")
        while AT not in call("capture-pane", "-p").splitlines()[0]:
            time.sleep(0.002)
        call("send-keys", "Space")
        time.sleep(0.2)
        return call("capture-pane", "-e", "-p")
    finally:
        call("kill-server")


def main():
    memweir, out = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        screen = played_back(memweir, Path(scratch))
    with open(os.devnull, "w") as nowhere:
        console = Console(width=COLUMNS, record=True, file=nowhere, force_terminal=True)
        for line in screen.splitlines():
            console.print(Text.from_ansi(line), no_wrap=True, crop=True)
        out.write_text(console.export_svg(title="memweir top", code_format=SVG, unique_id="top"))


main()
