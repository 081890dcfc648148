# SPDX-License-Identifier: Apache-2.0
"""What the rules about settings ask of them. A value that is no literal is unknown: ``auto``, ``$N``, ``{{ n }}``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from keepstep.model.facts import ConfigFile, Setting
from keepstep.rules.api import Evidence, EvidenceSet


class Settings:
    """One file of settings, or one document, by path."""

    def __init__(self, evidence: Evidence[Any]) -> None:
        self.evidence: Evidence[Any] = evidence

    @cached_property
    def _by_path(self) -> dict[tuple[str, ...], Setting]:
        return {each.path: each for each in self.fact.settings}

    @property
    def source(self) -> str:
        return self.evidence.origin.source

    @property
    def fact(self) -> ConfigFile:
        found: ConfigFile = self.evidence.fact
        return found

    def get(self, *path: str) -> Setting | None:
        return self._by_path.get(path)

    def text(self, *path: str) -> str:
        found = self.get(*path)
        return found.text if found is not None and found.kind != "null" else ""

    def number(self, *path: str) -> int | None:
        """A whole number above 0 that is written out."""
        text = self.text(*path)
        return int(text) if text.isdecimal() and len(text) < 10 and int(text) > 0 else None

    def is_on(self, *path: str) -> bool:
        return self.text(*path).lower() == "true"

    def keys(self, *path: str) -> list[str]:
        """The keys of a map, or the numbers of a list, in order."""
        depth = len(path)
        return [each[depth] for each in self._by_path if len(each) == depth + 1 and each[:depth] == path]

    def below(self, *path: str) -> Iterator[Setting]:
        """Everything below a path."""
        return (each for each in self.fact.settings if each.path[: len(path)] == path)

    def at(self, *path: str) -> Evidence[Any]:
        """The place of a setting, as evidence."""
        found = self.get(*path)
        return at_line(self.evidence, found.line if found is not None else self.evidence.origin.line)


def at_line(evidence: Evidence[Any], line: int | None) -> Evidence[Any]:
    """The same file at another line."""
    return replace(evidence, origin=replace(evidence.origin, line=line or evidence.origin.line))


def all_settings(seen: EvidenceSet, kind: type[ConfigFile]) -> list[Settings]:
    return [Settings(each) for each in seen.all(kind)]


def named(files: list[Settings], name: str, near: str) -> Settings | None:
    """The one file that a path in another file means: from its folder or one above; None if it is not certain."""
    if not name or any(mark in name for mark in "${}*"):
        return None
    wanted = [part for part in name.replace("\\", "/").split("/") if part not in (".", "")]
    while wanted and wanted[0] == "..":
        wanted = wanted[1:]
    if not wanted:
        return None
    fitting = [each for each in files if each.source.replace("\\", "/").split("/")[-len(wanted) :] == wanted]
    if len(fitting) > 1:
        fitting = [each for each in fitting if _folder(each.source) == _folder(near)]
    return fitting[0] if len(fitting) == 1 else None


def _folder(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[0]
