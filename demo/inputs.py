#!/usr/bin/env python3
"""Writes the demo's inputs into a directory: the same bytes on every machine."""

import random
import sys
from pathlib import Path

LINES = 260_000
RECORDS = 1_000_000


def words(source):
    """A vocabulary with the letter frequencies of a language, roughly."""
    letters = "etaoinshrdlucmfwypvbgk"
    weights = [1 / (rank + 2) for rank in range(len(letters))]
    return ["".join(source.choices(letters, weights, k=source.randint(2, 9))) for _ in range(6000)]


def text(path, source):
    """Lines of words, the rank of a word deciding how often it occurs."""
    vocabulary = words(source)
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    with path.open("w", encoding="ascii") as file:
        for _ in range(LINES // 1000):
            drawn = source.choices(vocabulary, weights, k=12_000)
            lines = (" ".join(drawn[i : i + 12]) for i in range(0, len(drawn), 12))
            file.write("\n".join(lines) + "\n")


def records(path, source):
    """Random keys for sort."""
    with path.open("w", encoding="ascii") as file:
        for _ in range(RECORDS):
            file.write(f"{source.getrandbits(64):016x} {source.getrandbits(96):024x}\n")


def main():
    directory = Path(sys.argv[1])
    source = random.Random(20101)
    text(directory / "text", source)
    records(directory / "records", source)


main()
