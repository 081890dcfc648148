# SPDX-License-Identifier: Apache-2.0
"""Questions about accelerators: were they meant to be used, and by whom are they not."""

from __future__ import annotations

from keepstep.model.facts import AcceleratorAsked, AcceleratorUsed, CommMember, Fact, OnCpu, StepSeen, VersionSeen
from keepstep.rules.api import TO_THE_END, Evidence, EvidenceSet, lazy_pattern
from keepstep.story.frameworks import frameworks_of

_OF_KERAS = lazy_pattern(r"\[[=>.]{10,}\]|\b(?:ms|s|us)/(?:step|epoch)\b|^\s*Epoch \d+/\d+\s*$")


def uses(seen: EvidenceSet) -> tuple[Evidence[Fact], ...]:
    """What shows that a process uses an accelerator: it names one, or NCCL, which needs one, started in it."""
    nccl = [e for e in seen.all(VersionSeen) if e.fact.component == "NCCL"]
    return (*seen.all(AcceleratorUsed), *nccl, *seen.all(CommMember))


def unwillingly_on_cpu(seen: EvidenceSet, kind: str) -> tuple[tuple[Evidence[OnCpu], ...], tuple[Evidence[Fact], ...]]:
    """The processes that run without the accelerator they were meant to have, and what shows that they were."""
    asked = seen.all(AcceleratorAsked)
    if any(not e.fact.wanted for e in asked):
        return (), ()
    used = uses(seen)
    busy = {e.origin.writer for e in used}
    told = [
        e for e in seen.all(OnCpu) if e.fact.kind.endswith(kind) and e.origin.writer not in busy and _meant(seen, e)
    ]
    shown: tuple[Evidence[Fact], ...] = asked or used
    if not asked:  # other ranks use theirs: this one must train too, as no parameter server or evaluator does
        told = [e for e in told if e.fact.present or (used and seen.near(e, StepSeen, after=TO_THE_END))]
    once = {(e.origin.writer, e.fact.why): e for e in reversed(told)}
    return tuple(reversed(once.values())), shown


def _meant(seen: EvidenceSet, told: Evidence[OnCpu]) -> bool:
    """Whether the framework that says it is the one that trains: many programs import another only to read data."""
    framework = told.fact.framework
    if framework is None:
        return True
    if framework == "tensorflow":
        others = seen.once(frameworks_of) - {"tensorflow"}
        return not others and any(_OF_KERAS.search(e.quote) for e in seen.near(told, StepSeen, after=TO_THE_END))
    known = seen.once(frameworks_of)
    return not known or framework in known
