# SPDX-License-Identifier: Apache-2.0
"""Lines as templates, whatever their words: the fixed part, and the whole numbers in it. Pure.

Times, addresses, fractions, paths and identifiers vary without saying anything, and become one mark each. Whole numbers
stay apart: one of them may be a rank, a step or a shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from keepstep.base.lazy_pattern import lazy_pattern

LONGEST = 300
MOST_TEMPLATES = 5_000
"""Of one stream. A program that prints prose has as many templates as lines, and they tell nothing."""
LETTERS = 6
"""A template with fewer letters, such as a separator, says nothing."""
_STAMP = lazy_pattern(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]?|(?<!\d)\d\d?:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d{9,}(?:\.\d+)?\b",
    most=LONGEST,
)
_NAMES = lazy_pattern(
    r"(?:[\w.+-]+:/)?/[^\s,;:'\")\]]+"  # paths and addresses of files
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}\b"
    r"|[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|\d+(?:[eE][-+]\d+)",
    most=LONGEST,
)
_WHOLE = lazy_pattern(r"\d{1,8}", most=LONGEST)
_LETTER = lazy_pattern(r"[^\W\d_]", most=LONGEST)


def template_of(text: str) -> tuple[str, tuple[int, ...]]:
    """The fixed part of a line, with a mark for whatever varies, and its whole numbers in order."""
    masked = _NAMES.sub("~", _STAMP.sub("@", text[:LONGEST]))
    return _WHOLE.sub("#", masked).strip(), tuple(map(int, _WHOLE.findall(masked)))


def says_something(template: str) -> bool:
    return len(_LETTER.findall(template)) >= LETTERS


@dataclass
class TemplateTold:
    """All lines of one template in one stream."""

    first: int
    """The line at which it came first."""
    last: int = 0
    count: int = 0
    text: str = ""
    """As it came last."""
    numbers: list[tuple[int, ...]] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)


@dataclass
class StreamTold:
    """What one stream said, by template."""

    told: dict[str, TemplateTold] = field(default_factory=dict)
    lines: int = 0
    """The number of its last line."""

    def add(self, number: int, text: str, at: float | None = None) -> None:
        template, numbers = template_of(text)
        self.lines = number
        each = self.told.get(template)
        if each is None:
            if len(self.told) >= MOST_TEMPLATES or not says_something(template):
                return
            each = self.told[template] = TemplateTold(number)
        each.last, each.text = number, text
        each.count += 1
        each.numbers.append(numbers)
        each.times.append(at)
