# SPDX-License-Identifier: Apache-2.0
"""A command of Python that another process can carry out in place of a fresh one, and how that process is sent it."""

from __future__ import annotations

import struct

FRAME = struct.Struct("<I")
"""How long the order is that follows, as JSON."""
WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")


def split_command(argv: list[str]) -> tuple[list[str], list[str]] | None:
    """Python's own options, and the script (or ``-m`` module) with its arguments; None for what cannot be repeated."""
    place = 1
    while place < len(argv) and argv[place].startswith("-") and argv[place] not in ("-", "--"):
        word = argv[place]
        if word == "-m":
            return (argv[1:place], argv[place:]) if place + 1 < len(argv) else None
        if word.startswith("--") and word not in WITH_VALUE:
            return None
        if not word.startswith(("-X", "-W", "--")) and (set(word[1:]) & set("cmhVi?") or not word[1:].isalpha()):
            return None
        place += 2 if word in WITH_VALUE else 1
    if place >= len(argv) or argv[place] in ("-", "--") or not argv[place].endswith(".py"):
        return None
    return argv[1:place], argv[place:]
