# SPDX-License-Identifier: Apache-2.0
"""Fewer, equally long words to look for first, one of which is in every literal. Pure.

Thousands of literals share hundreds of pieces of eight bytes, and a search for these is faster; the faster,
the less they resemble what stands in logs. Where one stands, the literals themselves are asked.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from keepstep.parse.scan.lines.usual_lines import LINES

WAY = "words of eight bytes that are not usual, with what is before them"
"""Of choosing: what was kept of another way is not taken for it."""
WIDTH = 8
"""As many bytes as the search looks at together; more of them cost it the same."""

Word = tuple[bytes, bool]
"""The bytes, and whether upper and lower case are the same."""


class LiteralGroup(NamedTuple):
    """Literals, by their numbers, and words that are in all of them. The search looks at the ends of words first."""

    literals: list[int]
    words: list[bytes]
    fold: bool


def choose(literals: Sequence[Word], usual: bytes = LINES) -> list[LiteralGroup]:
    """Groups with every literal in one of them, as few as is quickly found: always the one with most of the rest.

    Their words do not stand in what logs usually say, where a literal has others.
    """
    everywhere = {text[start : start + WIDTH] for text in (usual, usual.lower()) for start in range(len(text))}
    groups = {
        _folded(word): LiteralGroup([], [_folded(word)[0]], word[1]) for word in literals if len(word[0]) <= WIDTH
    }
    widths = sorted({len(text) for text, _ in groups})
    holders: dict[Word, set[int]] = defaultdict(set)
    left: set[int] = set()
    for number, literal in enumerate(literals):
        short = next((word for word in _parts(literal, widths) if word in groups), None)
        if short is not None:
            groups[short].literals.append(number)
            continue
        left.add(number)
        parts = list(_parts(literal, (WIDTH,)))
        for word in [part for part in parts if part[0] not in everywhere] or parts:
            holders[word].add(number)
    chosen = [group for group in groups.values() if group.literals]
    heap = [(-len(numbers), word) for word, numbers in holders.items()]
    heapq.heapify(heap)
    while left:
        held, word = heapq.heappop(heap)
        mine = holders[word] & left
        if -len(mine) == held:
            texts = [_folded(literals[number])[0] for number in sorted(mine)]
            equal = [
                text
                for text, fold in dict.fromkeys(_parts(literals[min(mine)], (WIDTH,)))
                if mine <= holders[text, fold]
            ]
            chosen.append(LiteralGroup(sorted(mine), [_with_what_is_before(text, texts) for text in equal], word[1]))
            left -= mine
        elif mine:
            heapq.heappush(heap, (-len(mine), word))
    return chosen


def fit(
    groups: Sequence[LiteralGroup], literals: Sequence[Word], log: bytes, plain: Collection[int] = ()
) -> Iterator[tuple[int, Word]]:
    """What to look for in such a log, each with the number of its group: the word whose pairs of bytes are rare there.

    Where all words of a group stand there, and in groups that are ``plain``, the literals themselves.
    """
    there = {log[start : start + WIDTH] for start in range(len(log))}
    common = {pair: math.log1p(times) for pair, times in Counter(pairwise(log)).items()}

    def likeness(word: bytes) -> float:
        return sum(common.get(pair, 0.0) for pair in pairwise(word[-WIDTH:]))

    for number, group in enumerate(groups):
        rare = [] if number in plain else [word for word in group.words if word[-WIDTH:] not in there]
        if rare:
            yield number, (min(rare, key=likeness), group.fold)
        else:
            yield from ((number, literals[each]) for each in group.literals)


def _with_what_is_before(word: bytes, texts: Sequence[bytes]) -> bytes:
    """The word with whatever precedes it in all of the texts: that costs nothing, and marks fewer places."""
    before = [text[: text.find(word)] for text in texts]
    common = 0
    while all(len(each) > common and each[-common - 1] == before[0][-common - 1] for each in before):
        common += 1
    return before[0][len(before[0]) - common :] + word


def _parts(word: Word, widths: Iterable[int]) -> Iterable[Word]:
    """What is in a word, in the case in which it is looked for."""
    text, fold = _folded(word)
    for width in widths:
        for start in range(len(text) - width + 1):
            yield text[start : start + width], fold


def _folded(word: Word) -> Word:
    return (word[0].lower(), True) if word[1] else word
