# SPDX-License-Identifier: Apache-2.0
"""The rows of all tables (and of the user's own), by the words to look for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.anchors import Anchor, AnchorFinder, Keeper, finder
from keepstep.parse.scan.block import Block
from keepstep.parse.scan.lines.digits import numberless
from keepstep.parse.scan.lines.headings import SPAWN_WORDS
from keepstep.parse.scan.signature import Signature

MOST_SHAPES = 20_000
_DIGITS = lazy_pattern(r"\d+")


@dataclass(frozen=True)
class Knowledge:
    """Signatures and blocks, indexed by the anchors that betray them."""

    finder: AnchorFinder
    signatures: tuple[tuple[Signature, ...], ...]
    """By anchor index: what to try on a line with that anchor."""
    blocks: tuple[tuple[Block, ...], ...]
    progress: tuple[Signature, ...]
    of_spawned: frozenset[int]
    """Anchors of words with which a parent prints a child's exception."""
    size: int
    shapes: dict[str, Signature | None] = field(default_factory=dict)
    """Which of ``progress`` reads lines of a shape (digits aside), if any: millions of lines have few shapes."""

    def read_progress(self, text: str) -> Fact | None:
        """What a line near the end of a log tells of progress, or as last words."""
        shape = _shape(text)
        if shape in self.shapes:
            each = self.shapes[shape]
            return each.read(text) if each is not None else None
        fact = None
        for each in self.progress:
            fact = each.read(text)
            if fact is not None:
                break
        if len(self.shapes) < MOST_SHAPES:
            self.shapes[shape] = each if fact is not None else None
        return fact


def _shape(text: str) -> str:
    """The text with every number as a single zero."""
    return numberless(text) if text.isascii() else _DIGITS.sub("0", text)


def build(
    signatures: Iterable[Signature],
    blocks: Iterable[Block],
    progress: Iterable[Signature] = (),
    kept: Keeper | None = None,
) -> Knowledge:
    """Index the tables."""
    by_anchor: dict[Anchor, tuple[list[Signature], list[Block]]] = {}
    total = 0
    for each in signatures:
        total += 1
        for anchor in _anchors_of(each):
            by_anchor.setdefault(anchor, ([], []))[0].append(each)
    for one in blocks:
        total += 1
        for anchor in _anchors_of(one.begin):
            by_anchor.setdefault(anchor, ([], []))[1].append(one)
    spawn_anchors = [(word, False) for word in SPAWN_WORDS]
    for anchor in spawn_anchors:
        by_anchor.setdefault(anchor, ([], []))
    anchors = list(by_anchor)
    return Knowledge(
        finder=finder(anchors, kept),
        signatures=tuple(tuple(by_anchor[a][0]) for a in anchors),
        blocks=tuple(tuple(by_anchor[a][1]) for a in anchors),
        progress=tuple(progress),
        of_spawned=frozenset(map(anchors.index, spawn_anchors)),
        size=total,
    )


def _anchors_of(each: Signature) -> list[Anchor]:
    return [(literal, each.folds_case) for literal in each.anchors]
