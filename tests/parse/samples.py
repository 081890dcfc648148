# SPDX-License-Identifier: Apache-2.0
"""Texts that a pattern matches: every alternative of it, and every optional part, in at least one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

try:
    from re import _constants as _ops  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _ops
    import sre_parse as _sre

MOST = 400
_CATEGORIES = {
    _ops.CATEGORY_DIGIT: "7",
    _ops.CATEGORY_SPACE: " ",
    _ops.CATEGORY_WORD: "w",
    _ops.CATEGORY_NOT_DIGIT: "x",
    _ops.CATEGORY_NOT_SPACE: "x",
    _ops.CATEGORY_NOT_WORD: "-",
}
_CANDIDATES = "x7w -_/.:,;=()[]{}'\"#*+|<>@!%&?~^$`\\AZaz09\n"


def samples(pattern: str) -> list[str]:
    """Those of them that do match: a text that is made without regard to look-arounds may not."""
    compiled = re.compile(pattern)
    return [text for text in dict.fromkeys(_sequence(_sre.parse(pattern), {})) if compiled.search(text)]


def _sequence(tree: Iterable[Any], groups: dict[int, str]) -> list[str]:
    """As many texts as the part with the most variants has; the others stay at their first."""
    parts = [_part(op, argument, groups) for op, argument in tree]
    if not parts:
        return [""]
    firsts = [part[0] for part in parts]
    texts = []
    for row in zip_longest(*parts):
        texts.append("".join(first if text is None else text for text, first in zip(row, firsts, strict=True)))
    for n, part in enumerate(parts):  # each by itself, too: two optional parts may not go together
        texts += ["".join([*firsts[:n], text, *firsts[n + 1 :]]) for text in part[1:]]
    return list(dict.fromkeys(texts))[:MOST]


def _part(op: Any, argument: Any, groups: dict[int, str]) -> list[str]:
    if op is _ops.LITERAL:
        return [chr(argument)]
    if op is _ops.NOT_LITERAL:
        return ["x" if chr(argument) != "x" else "y"]
    if op is _ops.ANY:
        return ["x"]
    if op is _ops.IN:
        return _characters(argument)
    if op is _ops.SUBPATTERN:
        found = _sequence(argument[3], groups)
        groups[argument[0]] = found[0]
        return found
    if op is _ops.BRANCH:
        return [text for branch in argument[1] for text in _sequence(branch, groups)]
    if op in (_ops.MAX_REPEAT, _ops.MIN_REPEAT, getattr(_ops, "POSSESSIVE_REPEAT", None)):
        least, most, inner = argument
        texts = [text * max(1, least) for text in _sequence(inner, groups)]
        return texts if least else ["", *texts] if most > 1 else [*texts, ""]
    if op is getattr(_ops, "ATOMIC_GROUP", None):
        return _sequence(argument, groups)
    if op is _ops.GROUPREF:
        return [groups.get(argument, "")]
    return [""]


def _characters(members: list[tuple[Any, Any]]) -> list[str]:
    if members[0][0] is _ops.NEGATE:
        return [next(c for c in _CANDIDATES if not any(_holds(member, c) for member in members[1:]))]
    literal = [chr(code) for op, code in members if op is _ops.LITERAL]
    if len(literal) == len(members):
        return literal
    op, value = members[0]
    return [chr(value) if op is _ops.LITERAL else chr(value[0]) if op is _ops.RANGE else _CATEGORIES[value]]


def _holds(member: tuple[Any, Any], letter: str) -> bool:
    op, value = member
    if op is _ops.LITERAL:
        return chr(value) == letter
    if op is _ops.RANGE:
        return value[0] <= ord(letter) <= value[1]
    kind = {
        _ops.CATEGORY_DIGIT: str.isdecimal,
        _ops.CATEGORY_SPACE: str.isspace,
        _ops.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    }
    inverse = {
        _ops.CATEGORY_NOT_DIGIT: _ops.CATEGORY_DIGIT,
        _ops.CATEGORY_NOT_SPACE: _ops.CATEGORY_SPACE,
        _ops.CATEGORY_NOT_WORD: _ops.CATEGORY_WORD,
    }
    return not kind[inverse[value]](letter) if value in inverse else kind[value](letter)
