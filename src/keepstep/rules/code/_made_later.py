# SPDX-License-Identifier: Apache-2.0
"""Calls and assignments that are made when a rule asks for them: those of a function, or of files with a word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from keepstep.model.lazy_evidence import MadeLater
from keepstep.rules.api import CodeAssigned, Evidence, EvidenceSet

Assigned = Evidence[CodeAssigned]
Files = list[MadeLater[Any]]


class ByFunction:
    """The evidence in each function, in order."""

    def __init__(self, files: Sequence[MadeLater[Any]]) -> None:
        self._files = by_column(files, "function")
        self._made: dict[str, list[Any]] = {}

    def files(self, function: str) -> Sequence[MadeLater[Any]]:
        return self._files.get(function, ())

    def get(self, function: str, otherwise: Sequence[Any]) -> Sequence[Any]:
        if function not in self._files:
            return otherwise
        if function not in self._made:
            made = [file[number] for file in self._files[function] for number in file.where("function", function)]
            self._made[function] = sorted(made, key=lambda each: each.fact.order)
        return self._made[function]


def by_column(files: Iterable[MadeLater[Any]], column: str) -> dict[str, Files]:
    """By what a column holds: the files in which it does."""
    found: dict[str, Files] = {}
    for file in files:
        for value in dict.fromkeys(file.column(column)):
            found.setdefault(value, []).append(file)
    return found


def writing(files: Iterable[MadeLater[Any]], words: tuple[str, ...]) -> Iterator[Evidence[Any]]:
    """What stands on lines with one of these words."""
    for file in files:
        lines = sorted(line for word in words for line in _lines_with(word.encode(), file.text))
        for number, (first, last) in enumerate(file.column("lines") if lines else ()):
            at = bisect_left(lines, first)
            if at < len(lines) and lines[at] <= last:
                yield file[number]


def _lines_with(word: bytes, text: bytes) -> Iterator[int]:
    line, before, at = 1, 0, text.find(word)
    while at >= 0:
        line += text.count(b"\n", before, at)
        yield line
        before, at = at, text.find(word, at + 1)


def has_word(file: MadeLater[Any], words: Iterable[str]) -> bool:
    return any(word.encode() in file.text for word in words)


class Assignments:
    """The assignments of a project, by what rules look for."""

    def __init__(self, seen: EvidenceSet) -> None:
        self._seen = seen
        self._assigned: tuple[MadeLater[CodeAssigned], ...] = seen.later.get(CodeAssigned, ())
        self._assigned_to: dict[str, list[Assigned]] = {}

    @cached_property
    def assigned(self) -> tuple[Assigned, ...]:
        """All assignments. It takes long: ask for those of a function, or in files with a word, if that will do."""
        return self._seen.all(CodeAssigned)

    @cached_property
    def assigned_in(self) -> ByFunction:
        """The assignments of each function, in order."""
        return ByFunction(self._assigned)

    def assigned_writing(self, *words: str) -> Iterator[Assigned]:
        """The assignments on whose lines one of these words stands."""
        return writing(self._assigned, words)

    def assigned_near(self, *words: str) -> Iterator[Assigned]:
        """All assignments of the files that contain one of these words."""
        return (each for file in self._assigned if has_word(file, words) for each in file)

    def assigned_to(self, word: str, function: str = "") -> Iterator[Assigned]:
        """The assignments with the word in what they are to: ``os.environ["TF_CONFIG"]``; in a function, if given."""
        if word not in self._assigned_to:
            self._assigned_to[word] = [
                file[number]
                for file in self._assigned
                if has_word(file, (word,))
                for number, target in enumerate(file.column("target"))
                if word in target
            ]
        return (each for each in self._assigned_to[word] if not function or each.fact.function == function)

    def assigned_with(self, operator: str) -> Iterator[Assigned]:
        """The assignments with an operator: ``Add`` is that of ``+=``."""
        for file in self._assigned:
            yield from (file[number] for number, with_it in enumerate(file.column("operator")) if with_it == operator)

    def assigned_on(self, is_wanted: Callable[[str], object]) -> Iterator[Assigned]:
        """The assignments to attributes and items of objects that are made by what is wanted."""
        for file in self._assigned:
            for number, made in enumerate(file.column("on")):
                if made and is_wanted(made):
                    yield file[number]

    def assigned_in_file(self, place: Evidence[Any]) -> Iterable[Assigned]:
        """All assignments of the file that something stands in."""
        return self._assigned_by_file.get(place.origin.source, ())

    @cached_property
    def _assigned_by_file(self) -> dict[str, MadeLater[CodeAssigned]]:
        return {each.path: each for each in self._assigned}
