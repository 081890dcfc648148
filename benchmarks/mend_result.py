# SPDX-License-Identifier: Apache-2.0
"""Puts the cure of a planted bug into a program that `keepstep shrink` made smaller.

The cure is a change of the original, and the smaller program is another one: both are laid upon each other, token by
token, so a cure fits where arguments, numbers or lines around it have gone.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

Token = tuple[int, str]
SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Mend:
    """``old`` stands once in ``original``, the text of ``file``, and ``new`` belongs there."""

    old: str
    new: str
    file: Path
    original: str


def mended(result: Path, mend: Mend) -> bool:
    """Whether the cure found its place in a file of the result: in the one of its name, or the most alike."""
    old, new = mend.old, mend.new
    if mend.file.suffix != ".py":
        there = [path for path in result.rglob(mend.file.name) if path.read_text().count(old) == 1]
        for path in there:
            path.write_text(path.read_text().replace(old, new))
        return bool(there)
    before, cured = _tokens(mend.original), _tokens(mend.original.replace(old, new))

    def unlike(path: Path) -> tuple[bool, float]:
        return path.name != mend.file.name, -SequenceMatcher(None, before, _tokens(path.read_text())).ratio()

    for path in sorted(result.rglob("*.py"), key=unlike):
        text = path.read_text()
        after = text.replace(old, new) if text.count(old) == 1 else _laid_upon(before, cured, _tokens(text))
        if after is not None and _parses(after):
            path.write_text(after)
            return True
    return False


def mends_of_patch(source: Path, patch: str) -> list[Mend]:
    """One for each place that a unified diff changes."""
    found, file = [], source
    for part in re.split(r"^(?=--- |@@ )", patch, flags=re.MULTILINE):
        if named := re.search(r"^\+\+\+ ([^\t\n]+)", part, re.MULTILINE):
            parts = Path(named[1]).parts
            file = next((p for n in range(len(parts)) if (p := source.joinpath(*parts[n:])).is_file()), source)
        at = re.match(r"@@ -(\d+)", part)
        if at is None or not file.is_file():
            continue
        lines = [line for line in part.splitlines(keepends=True)[1:] if line[:1] in "+- \n"]
        old = "".join(line[1:] or "\n" for line in lines if line[:1] != "+")
        new = "".join(line[1:] or "\n" for line in lines if line[:1] != "-")
        whole = file.read_text()
        first = "".join(whole.splitlines(keepends=True)[: max(int(at[1]) - 1, 0)])
        if whole.startswith(old, len(first)) and file.suffix == ".py":
            found.append(Mend(whole, first + new + whole[len(first) + len(old) :], file, whole))
        else:
            found.append(Mend(old, new, file, whole))
    return [each for each in found if each.original.count(each.old) == 1]


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
    return "".join(_text(out)) if out != smaller else None  # what it would take away has gone


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
