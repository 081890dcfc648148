# SPDX-License-Identifier: Apache-2.0
"""Asks the rules about each island of a project: in this process, or, where there are many files, in several."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence

from keepstep.base.forked_calls import ForkedCalls
from keepstep.check.code.ask_rules import FROM_FILES, answered
from keepstep.check.code.plain_findings import Places
from keepstep.check.code.program.facts import evidence_of
from keepstep.check.code.program.project import Project
from keepstep.check.code.settings_files import unpacked_settings
from keepstep.check.code.unit_bytes import unpacked
from keepstep.model.rule import Rule
from keepstep.story.engine import diagnose

Island = Sequence[str]
"""The files of an island, as shown."""


def judged(
    islands: Sequence[Island], units: Mapping[str, bytes], settings: Collection[str], rules: Sequence[Rule]
) -> Iterator[tuple[int, bytes]]:
    """By number of the island, as they are ready: what was found in it, packed. Raises as ``unpacked`` does.

    ``settings``: the files that are no programs.
    """
    count = sum(len(each) for each in islands)
    alone = [number for number, each in enumerate(islands) if len(each) >= FROM_FILES or count < FROM_FILES]
    for number in alone:
        yield number, _judge(islands[number], units, settings, rules)
    rest = sorted(set(range(len(islands))) - set(alone), key=lambda number: -len(islands[number]))
    if not rest:
        return

    def judge(number: int) -> tuple[int, bytes]:
        gc.disable()
        return number, _judge(islands[number], units, settings, rules)

    processes = min(os.cpu_count() or 1, 8)
    size = max(1, min(16, len(rest) // (4 * processes)))
    batches = [rest[at :: -(-len(rest) // size)] for at in range(-(-len(rest) // size))]
    yield from ForkedCalls(processes, judge, lambda number, _: judge(number)).results(batches)


def _judge(island: Island, units: Mapping[str, bytes], settings: Collection[str], rules: Sequence[Rule]) -> bytes:
    programs = {path: unpacked(units[path]) for path in island if path not in settings}
    others = {path: unpacked_settings(units[path], path) for path in island if path in settings}
    seen = evidence_of(Project(programs), [each for file in others.values() for each in file.facts])
    report = diagnose(seen, answered(rules, seen, len(programs)), lambda _, findings: tuple(findings))
    sources = {path: unit.source for path, unit in programs.items()}
    places = Places(sources | {path: file.source for path, file in others.items()})
    findings = [places.plain(each) for each in report.findings]
    return pickle.dumps((findings, [(each.rule, each.error) for each in report.crashed]), protocol=5)
