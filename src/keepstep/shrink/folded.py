# SPDX-License-Identifier: Apache-2.0
"""A statement that is written anew is one line, however long: here it is folded at its brackets, as formatters do."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterator
from itertools import pairwise

WIDTH = 110


def folded(line: str, indent: int) -> list[str]:
    """The lines of a statement; as it is if it fits, or if it has no brackets to fold it at."""
    if len(line) + indent <= WIDTH:
        return [line]
    found = _outermost(line)
    if found is None:
        return [line]
    first, commas, last = found
    head, tail = line[: first + 1], line[last:]
    cuts = [first + 1, *commas, last]
    inside = line[first + 1 : last]
    pieces = [line[begin:end].strip().removesuffix(",") for begin, end in pairwise(cuts)]
    pieces = [piece for piece in pieces if piece]
    if not commas or len(inside) + indent + 4 <= WIDTH:
        return [head, *(" " * 4 + each for each in folded(inside, indent + 4)), tail]
    return [head, *(" " * 4 + each for piece in pieces for each in _with_comma(folded(piece, indent + 4))), tail]


def _with_comma(lines: list[str]) -> Iterator[str]:
    yield from lines[:-1]
    yield lines[-1] + ","


def _outermost(line: str) -> tuple[int, list[int], int] | None:
    """The largest bracket: where it opens, after which commas it can be folded, and where it closes."""
    best: tuple[int, list[int], int] | None = None
    waiting: list[tuple[int, list[int], bool]] = []
    try:
        for each in tokenize.generate_tokens(io.StringIO(line).readline):
            if each.start[0] > 1:
                break
            if each.string in ("(", "[", "{") and each.type == tokenize.OP:
                waiting.append((each.start[1], [], True))
            elif each.string == "," and waiting:
                waiting[-1][1].append(each.end[1])
            elif each.string == "for" and waiting:
                waiting[-1] = (*waiting[-1][:2], False)
            elif each.string in (")", "]", "}") and each.type == tokenize.OP and waiting:
                first, commas, plain = waiting.pop()
                if best is None or each.start[1] - first > best[2] - best[0]:
                    best = first, commas if plain else [], each.start[1]
    except (tokenize.TokenError, SyntaxError):
        return best
    return best
