# SPDX-License-Identifier: Apache-2.0
"""Texts on which a backtracking engine takes as long as it can with a pattern, derived from the pattern itself.

Each text leads into the pattern's repeats, fills them with characters that several of them take, and then breaks off,
so
that every way to share those characters out is tried in vain.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

try:
    from re import _constants as _ops  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _ops
    import sre_parse as _sre

PALETTE = [" ", *"a1A.:/-_,=\"'([<\\{|", "\t", "\n", "é", *string.printable[:95]]
WIDE = 8
"""Repeats that may take fewer characters than this are not worth filling."""


@dataclass(frozen=True)
class Effort:
    """How many texts are tried."""

    ways: int
    """Choices of branches that are followed through a pattern."""
    fillings: int
    """Characters with which repeats are filled."""
    times: tuple[int, ...]
    """How often, where the pattern is written over and over."""
    cuts: int
    """Places where a text breaks off."""


THOROUGH = Effort(ways=48, fillings=10, times=(1, 7, 40, 300), cuts=6)
QUICK = Effort(ways=8, fillings=2, times=(1, 40), cuts=2)
BREAK = "\n\x00"
"""No pattern goes on with this."""
_REPEATS = {_ops.MAX_REPEAT, _ops.MIN_REPEAT, getattr(_ops, "POSSESSIVE_REPEAT", _ops.MAX_REPEAT)}


class _Item(NamedTuple):
    """One place of a pattern: the characters it takes, one to write, and how often."""

    takes: frozenset[str]
    sample: str
    least: int = 1
    most: int = 1
    opens: int = 0
    """How many places the repeated group that begins here has; 0 where none does."""


def attacks(pattern: str | bytes, flags: int, size: int, effort: Effort = THOROUGH) -> Iterator[str]:
    """Texts of about ``size`` characters, no two alike."""
    tree = _sre.parse(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), flags & ~re.ASCII)
    seen: set[str] = set()
    known: set[tuple[_Item, ...]] = set()
    for way in range(effort.ways):
        for items in _ways(tree, way):
            if items in known:
                continue
            known.add(items)
            for text in _of_way(items, size, effort):
                if text not in seen:
                    seen.add(text)
                    yield text


def _ways(tree: Any, way: int) -> Iterator[tuple[_Item, ...]]:
    """One choice of branches through the whole pattern, and through it up to the end of each look-ahead."""
    aside: list[tuple[_Item, ...]] = []
    yield tuple(_flat(tree, way, {}, [], aside))
    yield from aside


def _flat(
    sequence: Iterable[Any],
    way: int,
    groups: dict[int, list[_Item]],
    before: list[_Item],
    aside: list[tuple[_Item, ...]],
) -> list[_Item]:
    out: list[_Item] = []
    for op, argument in sequence:
        if op in (_ops.LITERAL, _ops.NOT_LITERAL, _ops.ANY, _ops.IN):
            out.append(_single(op, argument))
        elif op is _ops.SUBPATTERN:
            inside = _flat(argument[3], way, groups, before + out, aside)
            if argument[0] is not None:
                groups[argument[0]] = inside
            out += inside
        elif op is getattr(_ops, "ATOMIC_GROUP", None):
            out += _flat(argument, way, groups, before + out, aside)
        elif op is _ops.BRANCH:
            branches = argument[1]
            out += _flat(
                branches[way % len(branches)],
                way // len(branches) if way >= len(branches) else way,
                groups,
                before + out,
                aside,
            )
        elif op in _REPEATS:
            out += _repeat(argument, way, groups, before + out, aside)
        elif op is _ops.GROUPREF:
            out += groups.get(argument, [])
        elif op in (_ops.ASSERT, _ops.ASSERT_NOT) and argument[0] > 0:
            inside = _flat(argument[1], way, groups, before + out, aside)
            if any(item.most >= WIDE for item in inside):
                aside.append(tuple(before + out + inside))
    return out


def _repeat(
    argument: Any, way: int, groups: dict[int, list[_Item]], before: list[_Item], aside: list[tuple[_Item, ...]]
) -> list[_Item]:
    least, most, body = argument
    most = 1 << 20 if most is _ops.MAXREPEAT else int(most)
    if len(body) == 1 and body[0][0] in (_ops.LITERAL, _ops.NOT_LITERAL, _ops.ANY, _ops.IN):
        one = _single(*body[0])
        return [_Item(one.takes, one.sample, least, most)]
    inside = _flat(body, way, groups, before, aside)
    if not inside or most < WIDE:
        return inside if least or way % 2 == 0 else []
    first, *rest = inside
    return [_Item(first.takes, first.sample, first.least, first.most, opens=len(inside)), *rest]


@lru_cache(maxsize=20_000)
def _takes(op: Any, argument: str) -> _Item:
    if op is _ops.LITERAL:
        return _Item(frozenset(argument), argument)
    pattern = {_ops.ANY: r".", _ops.NOT_LITERAL: f"[^{re.escape(argument)}]"}.get(op, argument)
    taken = [c for c in PALETTE if re.match(pattern, c)]
    return _Item(frozenset(taken), taken[min(1, len(taken) - 1)] if taken else "é")


def _single(op: Any, argument: Any) -> _Item:
    if op is _ops.IN:
        return _takes(op, _class(argument))
    return _takes(op, "" if op is _ops.ANY else chr(argument))


_CATEGORIES = {
    _ops.CATEGORY_DIGIT: r"\d",
    _ops.CATEGORY_NOT_DIGIT: r"\D",
    _ops.CATEGORY_SPACE: r"\s",
    _ops.CATEGORY_NOT_SPACE: r"\S",
    _ops.CATEGORY_WORD: r"\w",
    _ops.CATEGORY_NOT_WORD: r"\W",
}


def _class(members: list[Any]) -> str:
    """A class as it may be written."""
    out = ""
    for op, argument in members:
        if op is _ops.NEGATE:
            out += "^"
        elif op is _ops.LITERAL:
            out += re.escape(chr(argument))
        elif op is _ops.RANGE:
            out += f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        else:
            out += _CATEGORIES[argument]
    return f"[{out}]"


def _of_way(items: tuple[_Item, ...], size: int, effort: Effort) -> Iterator[str]:
    wide = [n for n, item in enumerate(items) if item.most >= WIDE]
    whole = "".join(item.sample * max(item.least, 1) for item in items)
    yield from _endless(whole[:1], size)
    yield from _endless(whole, size)
    yield from _groups(items, size)
    if not wide:
        return
    cuts = sorted({*(n + 1 for n in wide[-effort.cuts :]), _last_needed(items), len(items)})
    yield from _literals(items, wide, size)
    plain = [_sample(item) for item in items]
    for fill in _fillings(items, wide)[: effort.fillings]:
        taking = [n for n in wide if fill in items[n].takes]

        def filled(cut: int, times: int, fill: str = fill, taking: list[int] = taking) -> str:
            parts = plain[:cut]
            for n in taking:
                if n < cut:
                    parts[n] = fill * max(items[n].least, min(times, items[n].most))
            return "".join(parts)

        yield from _endless(fill, size)
        for n in taking:
            yield filled(n, 1) + fill * min(size, items[n].most) + BREAK
        for cut in cuts:
            yield filled(cut, max(1, size // max(1, len([n for n in taking if n < cut])))) + BREAK
            for times in effort.times:
                yield from _endless(filled(cut, times), size)


def _last_needed(items: tuple[_Item, ...]) -> int:
    return max((n for n, item in enumerate(items) if item.least), default=0)


def _endless(unit: str, size: int) -> Iterator[str]:
    if unit and len(unit) < size:
        yield unit * (size // len(unit)) + BREAK


def _groups(items: tuple[_Item, ...], size: int) -> Iterator[str]:
    """Each repeated group over and over, and then what does not go on."""
    for n, item in enumerate(items):
        if item.opens:
            before = _written(items[:n], "")
            group = items[n : n + item.opens]
            for fill in ("", *sorted(frozenset.intersection(*(each.takes for each in group)), key=PALETTE.index)[:2]):
                for unit in {_written(group, fill), fill}:
                    yield from (before + text for text in _endless(unit, size))


def _literals(items: tuple[_Item, ...], wide: list[int], size: int) -> Iterator[str]:
    """What stands between the gaps, each piece over and over, in order: any of them may be where a gap ends."""
    pieces: list[str] = []
    start = 0
    for n in [*wide, len(items)]:
        piece = "".join(item.sample * item.least for item in items[start:n])
        if piece:
            pieces.append(piece)
        start = n + 1
    for upto in range(max(1, len(pieces) - 2), len(pieces) + 1):
        share = size // upto
        yield "".join(piece * max(1, share // len(piece)) for piece in pieces[:upto]) + BREAK
        if upto > 1:
            yield (
                pieces[0]
                + "".join(piece * max(1, size // (upto - 1) // len(piece)) for piece in pieces[1:upto])
                + BREAK
            )


def _fillings(items: tuple[_Item, ...], wide: list[int]) -> list[str]:
    """One character for each choice of repeats that take it."""
    chosen: dict[tuple[bool, ...], str] = {}
    own = [item.sample for item in items if item.most == 1]
    for char in [*dict.fromkeys([*PALETTE, *own])]:
        taken = tuple(char in items[n].takes for n in wide)
        if any(taken):
            chosen.setdefault((*taken, char in own), char)
    most_first = sorted(chosen.items(), key=lambda each: -sum(each[0][:-1]))
    return [char for _, char in most_first]


def _sample(item: _Item) -> str:
    return item.sample * (item.least if item.least or item.most >= WIDE else 1)


def _written(items: Iterable[_Item], fill: str) -> str:
    """A text that the items take, with the filling once in every repeat that takes it."""
    return "".join(
        fill * max(item.least, 1) if item.most >= WIDE and fill and fill in item.takes else _sample(item)
        for item in items
    )
