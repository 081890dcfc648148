# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of one line after its carriage returns and backspaces: a progress bar's last state. Pure."""

from __future__ import annotations

import re

LONGEST = 2000
STATES = 4
"""How many of a bar's last states are used: a shorter one leaves the end of a longer one visible."""
_PARTS = re.compile(r"\x1b\[[0-9;?]*([A-Za-z])|\x1b[^\[]?|[\x00-\x1a\x1c-\x1f]|[^\x00-\x1f]+")


def last_state(line: bytes, longest: int = LONGEST) -> str:
    """The line as it would stand there: colours stay, other movements of the cursor are left out."""
    states = line.rstrip(b"\r").split(b"\r")[-STATES:]
    text = "\r".join(state[-longest:].decode("utf-8", "replace") for state in states)
    if text.isprintable():
        return text[:longest]
    cells: list[str] = []
    colours: dict[int, str] = {}
    place = 0
    for part in _PARTS.finditer(text):
        word, command = part[0], part[1]
        if command == "m":
            colours[place] = colours.get(place, "") + word
        elif command == "K":
            cells[0 if word == "\x1b[2K" else place :] = [" "] * place if word == "\x1b[2K" else []
        elif word == "\r":
            place, colours = 0, {}
        elif word == "\b":
            place = max(0, place - 1)
        elif word == "\t" or word >= " ":
            cells += [" "] * (place - len(cells))
            cells[place : place + len(word)] = word
            place += len(word)
    shown = [colours.get(n, "") + cell for n, cell in enumerate(cells)]
    return "".join(shown).rstrip(" ")[: 2 * longest] + "".join(colours[n] for n in sorted(colours) if n >= len(cells))


def keep_of(unfinished: bytes) -> bytes:
    """As much of an unfinished line as its last state needs."""
    if len(unfinished) <= LONGEST:
        return unfinished
    return b"\r".join(state[-LONGEST:] for state in unfinished.split(b"\r")[-STATES - 1 :])
