# SPDX-License-Identifier: Apache-2.0
"""Puts the cure of a planted bug into a program that `keepstep shrink` made smaller.

The cure is a change of the original, and the smaller program is another one: both are laid upon each other, token by
token, so a cure fits where arguments, numbers or lines around it have gone.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

Token = tuple[int, str]
SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER)


def mended(result: Path, original: str, old: str, new: str) -> bool:
    """Whether the cure found its place in a file of the result."""
    if original.count(old) != 1:
        return False
    before, cured = _tokens(original), _tokens(original.replace(old, new))
    for path in sorted(result.rglob("*.py")):
        text = path.read_text()
        after = text.replace(old, new) if text.count(old) == 1 else _laid_upon(before, cured, _tokens(text))
        if after is not None and _parses(after):
            path.write_text(after)
            return True
    return False


def _tokens(text: str) -> list[Token]:
    """One line for each statement."""
    lines = io.StringIO(ast.unparse(ast.parse(text)) + "\n")
    return [(each.type, each.string) for each in tokenize.generate_tokens(lines.readline) if each.type not in SKIPPED]


def _laid_upon(before: list[Token], cured: list[Token], smaller: list[Token]) -> str | None:
    place = {
        block.a + n: block.b + n
        for block in SequenceMatcher(None, before, smaller, autojunk=False).get_matching_blocks()
        for n in range(block.size)
    }
    changes: list[tuple[int, int, list[Token]]] = []
    for kind, first, last, begin, end in SequenceMatcher(None, before, cured, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        left = [place[n] for n in range(first, last) if n in place]
        if left:
            changes.append((left[0], left[-1] + 1, cured[begin:end]))
        elif first - 1 in place:
            changes.append((place[first - 1] + 1, place[first - 1] + 1, cured[begin:end]))
        elif last in place:
            changes.append((place[last], place[last], cured[begin:end]))
        else:
            return None
    out = list(smaller)
    for begin, end, tokens in reversed(changes):
        out[begin:end] = tokens
    return "".join(_text(out))


def _text(tokens: list[Token]) -> Iterator[str]:
    depth, fresh = 0, True
    for kind, text in tokens:
        if kind in (tokenize.INDENT, tokenize.DEDENT):
            depth += 1 if kind == tokenize.INDENT else -1
        elif kind == tokenize.NEWLINE:
            yield "\n"
            fresh = True
        else:
            yield (" " * 4 * depth if fresh else " ") + text
            fresh = False


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
