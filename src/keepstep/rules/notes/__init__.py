# SPDX-License-Identifier: Apache-2.0
"""What is worth knowing before a run and is no problem: one file per note. No note changes verdict or status."""

from __future__ import annotations

from keepstep.model.evidence import EvidenceSet
from keepstep.model.finding import Finding
from keepstep.model.report import Note
from keepstep.rules.notes.every_task_here import every_task_here
from keepstep.rules.notes.no_trace import no_trace


def notes_on(seen: EvidenceSet, findings: tuple[Finding, ...]) -> tuple[Note, ...]:
    """The notes on what a check saw, each once. What is a finding is no note as well."""
    told = {each.cause for each in findings}
    found = (every_task_here(seen, told), no_trace(seen))
    return tuple(each for each in found if each is not None)
