# SPDX-License-Identifier: Apache-2.0
"""Asks the rules about a large project in two processes: each takes the next rule that nobody has asked yet."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keepstep.base.worker_pool import Send, Worker
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.code import CodeDiverges
from keepstep.model.finding import Found
from keepstep.model.rule import Rule

FROM_FILES = 100
"""Fewer are judged faster than a process is started."""
LONGEST_S = 600.0
"""The other process is waited for; then its rules are asked here."""
Answers = dict[str, list[Found]]
"""By rule, what it found."""


def answered(rules: Sequence[Rule], seen: EvidenceSet, files: int) -> list[Rule]:
    """The rules, with their answers ready where that is worth it. A rule that fails is left to be asked as usual."""
    if files < FROM_FILES or (os.cpu_count() or 1) < 2:
        return list(rules)
    together = _together(rules)
    waiting = _numbers(len(together))
    helper = Worker.fork(lambda tasks, send: _help(send, together, seen, waiting))
    try:
        answers = _ask(together, seen, waiting)
        if (others := helper.answer(LONGEST_S)) is not None:
            answers |= pickle.loads(others)
    finally:
        os.close(waiting)
        helper.end()
    return [_ready(each, answers[each.id]) if each.id in answers else each for each in rules]


def _together(rules: Sequence[Rule]) -> list[list[Rule]]:
    """The rules that ask where ranks differ share what takes long to find out, so one process asks them all."""
    diverging = [each for each in rules if CodeDiverges in each.needs]
    return [diverging, *([each] for each in rules if CodeDiverges not in each.needs)]


def _numbers(count: int) -> int:
    """A pipe with the numbers from 0, a byte each: who reads one has it alone."""
    reading, writing = os.pipe()
    os.write(writing, bytes(range(min(count, 256))))
    os.close(writing)
    return reading


def _ask(together: list[list[Rule]], seen: EvidenceSet, waiting: int) -> Answers:
    found: Answers = {}
    while number := os.read(waiting, 1):
        for rule in together[number[0]]:
            try:
                found[rule.id] = list(rule.find(seen)) if any(seen.has(kind) for kind in rule.needs) else []
            except Exception:  # the engine will meet it again, and report it
                continue
    return found


def _help(send: Send, together: list[list[Rule]], seen: EvidenceSet, waiting: int) -> None:
    gc.disable()
    send(pickle.dumps(_ask(together, seen, waiting)))


def _ready(rule: Rule, answer: list[Any]) -> Rule:
    return replace(rule, needs=(), find=lambda seen: iter(answer))
