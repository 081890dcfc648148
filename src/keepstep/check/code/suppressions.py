# SPDX-License-Identifier: Apache-2.0
"""Comments that switch findings off: which findings they hide, and which of them name no rule or hide nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from keepstep.model.finding import Finding

_COMMENT = re.compile(rb"#\s*keepstep:\s*ignore")


class Commented(Protocol):
    """A file that was read: a program, or settings."""

    @property
    def source(self) -> bytes: ...
    @property
    def ignored(self) -> dict[int, tuple[str, ...]]: ...


def is_switched_off(finding: Finding, units: Mapping[str, Commented]) -> bool:
    origin = finding.evidence[0].origin
    unit = units.get(origin.source)
    rules = unit.ignored.get(origin.line or 0) if unit is not None else None
    return rules is not None and (not rules or finding.rule in rules)


def without_use(
    units: Mapping[str, Commented],
    hidden: Iterable[Finding],
    asked: Iterable[str],
    known: Iterable[str],
    *,
    all_asked: bool,
) -> Iterator[tuple[str, str]]:
    """Where a comment names no rule or hides nothing, and the words for it. Rules not asked are left alone."""
    used = {(each.evidence[0].origin.source, each.evidence[0].origin.line, each.rule) for each in hidden}
    places = {(source, line) for source, line, _ in used}
    asked, known = set(asked), set(known)
    for source, unit in units.items():
        lines = unit.source.split(b"\n") if unit.ignored else []
        for line, rules in unit.ignored.items():
            if not _COMMENT.search(lines[line - 1]):
                continue  # in a block
            for rule in rules:
                if rule not in known:
                    yield f"{source}:{line}", f"there is no rule {rule}"
                elif rule in asked and (source, line, rule) not in used:
                    yield f"{source}:{line}", f"the comment that switches {rule} off is not needed"
            if not rules and all_asked and (source, line) not in places:
                yield f"{source}:{line}", "the comment that switches findings off is not needed"
