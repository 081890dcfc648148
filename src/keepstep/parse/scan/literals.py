# SPDX-License-Identifier: Apache-2.0
"""The literals of a pattern: texts of which at least one is in whatever the pattern matches. Pure.

A pattern is read from left to right. As long as what it has read can be written out as a few texts, it writes them out
(``[Ff]oo ?bar`` is four texts); where that ends, a new run begins. The best run, or the best of a part, is the answer:
the one whose texts are rarest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern

try:
    from re import _constants as _ops  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _ops
    import sre_parse as _sre

SHORTEST = 4
MOST_TEXTS = 16
"""Of one run. A branch of a pattern may bring as many as it has."""
LONG_ENOUGH = 12
"""Letters that no common word has: no line has such a text by chance, so a few of them beat a longer text."""
LONGEST = 32
"""Of a text only so much is looked for: terminals wrap lines, and a shorter text is less often broken in two."""
MOST_CHARACTERS = 4
"""Of a class such as ``[Ii]`` that is written out."""
_COMMON = lazy_pattern(
    r"(?i)\b(?:(?:runtime|value|type|index|key|assertion|import|file ?not ?found|attribute|os|connection)?(?:error|exception)|warning|info|fatal|failed|failure"
    r"|ranks?|process(?:es)?|workers?|tasks?|nodes?|hosts?|devices?|machines?|servers?|replicas?|gpus?|python|torch|pytorch|jax|tensorflow|nccl|cuda|job|step"
    r"|could|not|found|find|no|such|file|or|directory|from|to|in|on|at|is|was|of|the|a|and|with|for|has|have|been|must|be|expected|got|loss|nan|total|grad|gradients?|norm"
    r"|world|size|version|checkpoints?|datasets?|saved|shapes?|program|computation|memory|mem|exit(?:ed)?|code|status|value|differ|unavailable|deadline_exceeded"
    r"|cc|cpp|h|cu|c|0+|0x|most|recent|call|last)\b"
)
"""Words that are on the lines of any log."""

_ATOMIC, _POSSESSIVE = getattr(_ops, "ATOMIC_GROUP", None), getattr(_ops, "POSSESSIVE_REPEAT", None)
_REPEATS = (_ops.MAX_REPEAT, _ops.MIN_REPEAT, _POSSESSIVE)

Texts = tuple[str, ...]
_NOTHING: Texts = ("",)


class _PatternPart(NamedTuple):
    """What a part of a pattern matches."""

    all: Texts | None
    """Every text that it matches, where these are few."""
    heads: Texts = _NOTHING
    """With one of these it begins,"""
    tails: Texts = _NOTHING
    """and with one of these it ends."""
    best: Texts = ()
    """One of these is in every text that it matches; empty: nothing is known."""


def _exactly(texts: Iterable[str]) -> _PatternPart:
    every = tuple(dict.fromkeys(texts))
    return _PatternPart(every, every, every, fewest(every))


def literals(pattern: str) -> tuple[Texts, bool, tuple[str, ...]]:
    """Of the whole pattern; whether upper and lower case are the same to it; the names of its groups."""
    tree = _sre.parse(pattern)
    folds = bool(tree.state.flags & re.IGNORECASE)
    return fewest(tuple(dict.fromkeys(map(_cut, _sequence(tree, folds).best)))), folds, tuple(tree.state.groupdict)


def fewest(texts: Texts) -> Texts:
    """Without those that hold another of them, which is found wherever they are; nothing, if one of them is empty."""
    if "" in texts:
        return ()
    return tuple(text for text in texts if not any(other != text and other in text for other in texts))


def worth(texts: Texts) -> tuple[float, int, int]:
    """The better, the rarer its texts, the fewer there are, the longer they are."""
    return min(map(_rarity, texts), default=-1.0), -len(texts), min(map(len, texts), default=0)


def _rarity(text: str) -> float:
    """In letters; one of a common word counts for a fourth."""
    if len(text) < SHORTEST:
        return -1.0
    rare = len(_COMMON.sub("", text).replace(" ", ""))
    return min(rare + (len(text) - rare) / 4, LONG_ENOUGH)


def _cut(text: str) -> str:
    """Its rarest part that is no longer than ``LONGEST``, of whole words."""
    if len(text) <= LONGEST:
        return text
    begins = [0, *(n + 1 for n, letter in enumerate(text) if letter == " ")]
    parts = [text[n : n + LONGEST] for n in begins]
    return max((part.rpartition(" ")[0] or part for part in parts if len(part) == LONGEST), key=_rarity)


def _sequence(tree: Iterable[Any], folds: bool) -> _PatternPart:
    found: list[Texts] = []
    run: Texts = _NOTHING
    heads: Texts | None = None
    for op, argument in tree:
        part = _part(op, argument, folds)
        if part.all is not None and len(run) * len(part.all) <= MOST_TEXTS:
            run = _joined(run, part.all)
            if not any(part.all):
                found.append(part.best)
            continue
        run = _joined(run, part.heads)
        heads = heads or run
        found += [fewest(run), part.best]
        run = part.tails
    found.append(fewest(run))
    return _PatternPart(run if heads is None else None, heads or run, run, max(found, key=worth))


def _joined(run: Texts, more: Texts) -> Texts:
    """Each of one with each of the other, unless these are too many: then the first alone."""
    return tuple(dict.fromkeys(a + b for a in run for b in more)) if len(run) * len(more) <= MOST_TEXTS else run


def _part(op: Any, argument: Any, folds: bool) -> _PatternPart:
    if op is _ops.LITERAL:
        return _exactly([chr(argument).lower() if folds else chr(argument)])
    if op in (_ops.AT, _ops.ASSERT_NOT):
        return _exactly(_NOTHING)
    if op is _ops.ASSERT:
        return _exactly(_NOTHING)._replace(best=_sequence(argument[1], folds).best)
    if op is _ops.SUBPATTERN:
        _, added, removed, inner = argument
        return _PatternPart(None) if (added | removed) & re.IGNORECASE and not folds else _sequence(inner, folds)
    if op is _ATOMIC:
        return _sequence(argument, folds)
    if op is _ops.IN:
        return _characters(argument, folds)
    if op is _ops.BRANCH:
        return _branches([_sequence(branch, folds) for branch in argument[1]])
    if op in _REPEATS:
        return _repeated(argument, folds)
    return _PatternPart(None)


def _characters(members: list[tuple[Any, Any]], folds: bool) -> _PatternPart:
    if len(members) > MOST_CHARACTERS or any(op is not _ops.LITERAL for op, _ in members):
        return _PatternPart(None)
    return _exactly(chr(code).lower() if folds else chr(code) for _, code in members)


def _branches(parts: list[_PatternPart]) -> _PatternPart:
    every = [text for part in parts if part.all is not None for text in part.all]
    if all(part.all is not None for part in parts) and len(set(every)) <= MOST_TEXTS:
        return _exactly(every)
    heads, tails, best = (
        tuple(dict.fromkeys(text for texts in each for text in texts))
        for each in ([part.heads for part in parts], [part.tails for part in parts], [part.best for part in parts])
    )
    known = all(part.best for part in parts)
    return _PatternPart(
        None,
        heads if len(heads) <= MOST_TEXTS else _NOTHING,
        tails if len(tails) <= MOST_TEXTS else _NOTHING,
        fewest(best) if known else (),
    )


def _repeated(argument: Any, folds: bool) -> _PatternPart:
    least, most, inner = argument
    part = _sequence(inner, folds)
    if (least, most) == (1, 1):
        return part
    if (least, most) == (0, 1) and part.all is not None:
        return _exactly((*part.all, ""))
    return _PatternPart(None, part.heads, part.tails, part.best) if least else _PatternPart(None)
