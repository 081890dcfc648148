# SPDX-License-Identifier: Apache-2.0
"""Message signatures: a pattern of a tool's message, and the fact that it states.

A table of them is the ``SIGNATURES`` of a parse module. The pattern is searched in one
logical line (writer's prefix, colours and progress bars already taken off). A blank
in a pattern also matches a line break, because terminals and pagers wrap lines.
Named groups become the fact's fields of the same name; keyword arguments are constants:

    signature(r"Address already in use.*?port (?P<port>\\d+)", PortTaken)
    signature(r"No route to host", ConnectFailed, why=Why.UNREACHABLE)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.parse.scan.bounded import bounded, narrowed
from keepstep.parse.scan.literals import SHORTEST, literals
from keepstep.parse.scan.patience import set_up

Make = Callable[[re.Match[str]], Fact | None]

LONGEST_ADVICE = 80
_ADVICE = lazy_pattern(r"\b[Ii]f you (?:get|see|encounter|run into|experience|hit|receive|are getting)\b[^.;\n]{0,80}$")
"""What comes next has not happened: it is advice for the case that it does."""


@dataclass(frozen=True)
class Signature:
    """One pattern. ``anchors``: literals one of which is in every text that matches."""

    expression: str
    make: Make
    anchors: tuple[str, ...]
    folds_case: bool = False
    where: str = ""
    """The file that has it, below ``keepstep``."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a line first holds an anchor: most patterns never are."""
        with set_up():
            return re.compile(self.expression)

    def read(self, text: str) -> Fact | None:
        """The fact that the text states, if it matches."""
        text = narrowed(text)
        match = self.pattern.search(text)
        if match is None or _ADVICE.search(text, max(0, match.start() - LONGEST_ADVICE), match.start()):
            return None
        return self.make(match)


class Derived(NamedTuple):
    """What is derived from a pattern alone."""

    expression: str
    anchors: tuple[str, ...]
    folds_case: bool
    groups: tuple[str, ...]


derived: dict[str, Derived] = {}
"""By pattern, of this start."""


def _nothing(pattern: str) -> Derived | None:
    return None


recall: Callable[[str], Derived | None] = _nothing
"""What an earlier start derived: it saves parsing thousands of patterns."""


def derive(pattern: str) -> Derived:
    """From an earlier start, if it is known there."""
    if pattern not in derived:
        derived[pattern] = recall(pattern) or _parse(pattern)
    return derived[pattern]


def _parse(pattern: str) -> Derived:
    anchors, folds_case, groups = literals(pattern)
    return Derived(bounded(pattern), anchors, folds_case, groups)


def signature(pattern: str, fact: type[Fact] | Make, /, *, anchors: Iterable[str] = (), **constants: Any) -> Signature:
    """A row of a table. ``anchors`` are derived from the pattern, unless those would be too common (``by_hand``)."""
    its = derive(pattern)
    make: Make
    if isinstance(fact, type):
        make = States(fact, constants, its.groups)
    elif constants:
        raise TypeError("constants go with a fact class")
    else:
        make = fact
    found = tuple(anchors) or its.anchors
    if not found or any(len(a) < SHORTEST for a in found):
        raise ValueError(f"no literal of {SHORTEST}+ characters in every match of {pattern!r}; found {found}")
    return Signature(its.expression, make, found, its.folds_case)


def by_hand(why: str, *anchors: str) -> tuple[str, ...]:
    """Anchors that are not derived from the pattern, and why. Only text with one of them is ever matched."""
    return anchors


class States:
    """Makes a fact of a match: named groups become its fields, constants are in all of them."""

    def __init__(self, fact: type[Fact], constants: dict[str, Any], groups: tuple[str, ...]) -> None:
        self.fact = fact
        self.constants = constants
        self._groups = groups
        self._converters = _converters(fact)
        unknown = {*groups, *constants} - set(self._converters)
        if unknown:
            raise TypeError(f"{fact.__name__} has no {', '.join(sorted(unknown))}")

    def __call__(self, match: re.Match[str]) -> Fact:
        values = dict(self.constants)
        for name in self._groups:
            text = match.group(name)
            if text is not None:
                try:
                    values[name] = self._converters[name](text.strip())
                except ValueError:
                    continue
        return self.fact(**values)


_known_converters: dict[type[Fact], dict[str, Callable[[str], Any]]] = {}


def _converters(fact: type[Fact]) -> dict[str, Callable[[str], Any]]:
    if fact not in _known_converters:
        _known_converters[fact] = {f.name: converter(f.type) for f in dataclasses.fields(fact)}
    return _known_converters[fact]


def converter(hint: object) -> Callable[[str], Any]:
    """By the text of a field's type: evaluating the types of all facts would take longer than reading most logs."""
    words = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    outside = words.partition("[")[0] + words.rpartition("]")[2] if "[" in words else words
    options = {option.strip() for option in outside.split("|")}
    if "int" in options:
        return _integer
    if "float" in options:
        return float
    return integers if "tuple" in options else str


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


def integers(text: str) -> tuple[int, ...]:
    """All numbers of a text, as ``(1, 2, 5)`` from ``[1, 2, 5]`` or ``ranks 1 and 2``."""
    return tuple(int(n) for n in re.findall(r"\d+", text))
