# SPDX-License-Identifier: Apache-2.0
"""Message signatures: a pattern of a tool's own words, and the fact that it states.

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

from keepstep.core.facts.base import Fact
from keepstep.core.lazy_pattern import lazy_pattern
from keepstep.parse.scan.bounded import bounded, narrowed

try:
    from re import _constants as _ops  # type: ignore[attr-defined]
    from re import _parser as _sre  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as _ops
    import sre_parse as _sre

Make = Callable[[re.Match[str]], Fact | None]

SHORTEST_ANCHOR = 4
LONGEST_ADVICE = 80
_ADVICE = lazy_pattern(r"\b[Ii]f you (?:get|see|encounter|run into|experience|hit|receive|are getting)\b[^.;\n]{0,80}$")
"""What comes next has not happened: a text tells what to do if it should."""


@dataclass(frozen=True)
class Signature:
    """One pattern. ``anchors``: literals one of which is in every text that matches."""

    expression: str
    make: Make
    anchors: tuple[str, ...]
    folds_case: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a line first holds an anchor: most patterns never are."""
        return re.compile(self.expression)

    @property
    def is_compiled(self) -> bool:
        return "pattern" in self.__dict__

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


recalled: dict[str, Derived] = {}
"""By pattern. What an earlier start derived spares this one the parsing of thousands, if it is there before the tables are."""
derived: dict[str, Derived] = {}
"""By pattern, of this start."""


def _derive(pattern: str) -> Derived:
    if pattern not in derived:
        derived[pattern] = recalled.get(pattern) or _parse(pattern)
    return derived[pattern]


def _parse(pattern: str) -> Derived:
    tree = _sre.parse(pattern)
    folds_case = bool(tree.state.flags & re.IGNORECASE)
    return Derived(bounded(pattern), _best(tree, folds_case), folds_case, tuple(tree.state.groupdict))


def signature(pattern: str, fact: type[Fact] | Make, /, *, anchors: Iterable[str] = (), **constants: Any) -> Signature:
    """A row of a table. ``anchors`` is derived from the pattern unless given."""
    its = _derive(pattern)
    if isinstance(fact, type):
        make = _maker(fact, constants, its.groups)
    elif constants:
        raise TypeError("constants go with a fact class")
    else:
        make = fact
    found = tuple(anchors) or its.anchors
    if not found or any(len(a) < SHORTEST_ANCHOR for a in found):
        raise ValueError(f"no literal of {SHORTEST_ANCHOR}+ characters in every match of {pattern!r}; found {found}")
    return Signature(its.expression, make, found, its.folds_case)


def _maker(fact: type[Fact], constants: dict[str, Any], groups: tuple[str, ...]) -> Make:
    converters = _converters(fact)
    unknown = {*groups, *constants} - set(converters)
    if unknown:
        raise TypeError(f"{fact.__name__} has no {', '.join(sorted(unknown))}")

    def make(match: re.Match[str]) -> Fact | None:
        values = dict(constants)
        for name in groups:
            text = match.group(name)
            if text is not None:
                try:
                    values[name] = converters[name](text.strip())
                except ValueError:
                    continue
        return fact(**values)

    return make


_known_converters: dict[type[Fact], dict[str, Callable[[str], Any]]] = {}


def _converters(fact: type[Fact]) -> dict[str, Callable[[str], Any]]:
    if fact not in _known_converters:
        _known_converters[fact] = {f.name: converter(f.type) for f in dataclasses.fields(fact)}
    return _known_converters[fact]


def converter(hint: object) -> Callable[[str], Any]:
    """By the words of a field's type: to evaluate the types of all facts would take longer than to read most logs."""
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


def _best(sequence: Any, fold: bool) -> tuple[str, ...]:
    """Literals of which at least one is in every match; the longest such choice."""
    options: list[tuple[str, ...]] = []
    run: list[str] = []

    def close() -> None:
        if run:
            options.append(("".join(run),))
            run.clear()

    for op, argument in sequence:
        if op is _ops.LITERAL:
            run.append(chr(argument).lower() if fold else chr(argument))
            continue
        close()
        if op is _ops.SUBPATTERN:
            options.append(_best(argument[3], fold))
        elif op is _ops.BRANCH:
            branches = [_best(branch, fold) for branch in argument[1]]
            if all(branches):
                options.append(tuple(a for branch in branches for a in branch))
        elif op in (_ops.MAX_REPEAT, _ops.MIN_REPEAT) and argument[0] >= 1:
            options.append(_best(argument[2], fold))
    close()
    options = [o for o in options if o]
    return max(options, key=lambda o: (min(len(a) for a in o), -len(o)), default=())
