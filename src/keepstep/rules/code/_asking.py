# SPDX-License-Identifier: Apache-2.0
"""What the rules about programs ask: calls by name, the calls of a function, who calls it, what it stands in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.code import Block, CodeAssigned, CodeCall, CodeDiverges, CodeFile, CodeFunction

Call = Evidence[CodeCall]


class Program:
    """The facts of a project, by what rules look for."""

    def __init__(self, seen: EvidenceSet) -> None:
        self._seen = seen
        self.all = seen.all(CodeCall)
        self.files = {each.origin.source: each.fact for each in seen.all(CodeFile)}

    @cached_property
    def _by_name(self) -> dict[str, list[Call]]:
        found = defaultdict(list)
        for each in self.all:
            found[each.fact.name].append(each)
        return found

    @cached_property
    def _by_method(self) -> dict[str, list[Call]]:
        found = defaultdict(list)
        for each in self.all:
            found[each.fact.method].append(each)
        return found

    @cached_property
    def _by_function(self) -> dict[str, list[Call]]:
        found = defaultdict(list)
        for each in self.all:
            found[each.fact.function].append(each)
        for calls in found.values():
            calls.sort(key=lambda each: each.fact.order)
        return found

    @cached_property
    def _by_file(self) -> dict[str, list[Call]]:
        found = defaultdict(list)
        for each in self.all:
            found[each.origin.source].append(each)
        return found

    @cached_property
    def functions(self) -> dict[str, Evidence[CodeFunction]]:
        """All functions by their full name."""
        return {each.fact.name: each for each in self._seen.all(CodeFunction)}

    @cached_property
    def assigned(self) -> tuple[Evidence[CodeAssigned], ...]:
        return self._seen.all(CodeAssigned)

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls of these names, in order of the files."""
        for name in names:
            yield from self._by_name.get(name, ())

    def methods(self, *names: str) -> Iterator[Call]:
        """The calls whose last part is one of these names, whatever the object."""
        for name in names:
            yield from self._by_method.get(name, ())

    def inside(self, function: str) -> list[Call]:
        """The calls in a function, in order."""
        return self._by_function.get(function, [])

    def in_file(self, place: Evidence[object] | Call) -> list[Call]:  # type: ignore[type-var]
        """All calls of the file that something stands in."""
        return self._by_file.get(place.origin.source, [])

    def imports(self, place: Call, *modules: str) -> bool:
        """Whether the file imports one of these modules, or something of them."""
        names = self.files[place.origin.source].imports
        return any(name == module or name.startswith(module + ".") for name in names for module in modules)


def program(seen: EvidenceSet) -> Program:
    """The project, put in order once."""
    return seen.once(Program)


def diverging(seen: EvidenceSet, kinds: Iterable[str], hows: Iterable[str]) -> Iterator[Evidence[CodeDiverges]]:
    """The collectives of these kinds on which ranks differ in these ways."""
    kinds, hows = set(kinds), set(hows)
    for each in seen.all(CodeDiverges):
        if each.fact.kind in kinds and each.fact.how in hows:
            yield each


def blocks(call: Call, *kinds: str) -> list[Block]:
    """The blocks of these kinds around a call, the outermost first."""
    return [each for each in call.fact.within if each.kind in kinds]


def is_on_some_ranks(call: Call) -> bool:
    """Whether a condition around it, in its own function, differs by rank."""
    return any(each.ranked for each in blocks(call, "if", "else"))


def short(name: str) -> str:
    """The name as people write it: the last two parts, without what made the object."""
    return ".".join(name.replace(".__call__", "").split(".")[-2:])


def reached_by(found: CodeDiverges) -> str:
    """The way from the line to the collective, in words; empty if it is the line itself."""
    return f", through {' and '.join(found.path)}" if found.path else ""
