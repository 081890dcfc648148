# SPDX-License-Identifier: Apache-2.0
"""Comments that switch findings off: which findings they hide, and which of them name no rule or hide nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from keepstep.check.code.summary import Summary
from keepstep.model.finding import Finding


def is_switched_off(finding: Finding, files: Mapping[str, Summary]) -> bool:
    origin = finding.evidence[0].origin
    file = files.get(origin.source)
    rules = file.ignored.get(origin.line or 0) if file is not None else None
    return rules is not None and (not rules or finding.rule in rules)


def without_use(
    files: Mapping[str, Summary],
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
    for source, file in files.items():
        for line in file.comments:
            rules = file.ignored[line]
            for rule in rules:
                if rule not in known:
                    yield f"{source}:{line}", f"there is no rule {rule}"
                elif rule in asked and (source, line, rule) not in used:
                    yield f"{source}:{line}", f"the comment that switches {rule} off is not needed"
            if not rules and all_asked and (source, line) not in places:
                yield f"{source}:{line}", "the comment that switches findings off is not needed"
