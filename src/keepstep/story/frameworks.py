# SPDX-License-Identifier: Apache-2.0
"""Which framework the evidence is about; advice for another one is left out. Pure.

A rule may give advice for each framework; a run has one. A fix's own words (`torchrun`, `tf.`, `JAX_`) show which one
it is for, so this works for users' rules too. If the evidence names no framework, or several, all advice stays.
"""

from __future__ import annotations

from dataclasses import replace

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.guard import WorldFormed
from keepstep.model.facts.process import ExceptionRaised, StackDump
from keepstep.model.finding import Finding, Fix

ENOUGH = 5000
"""How many pieces of evidence are examined; the first ones of a run suffice."""
_FOR = {
    "torch": lazy_pattern(
        r"\btorch(?:run|_xla)?\b|\bTORCH_|\bPYTORCH_|\bPyTorch\b|\bDistributedDataParallel\b|\bdist\.\w+\("
        r"|\bMASTER_(?:ADDR|PORT)\b|\$\{?(?:LOCAL_)?RANK\b|\bexport RANK="
        r"|\bDataLoader\b|\bDistributedSampler\b|\bdrop_last\b|\bstate_dict\b|\bfind_unused_parameters\b"
    ),
    "tensorflow": lazy_pattern(
        r"\btf\.|\btf_keras\b|\bTF_[A-Z]|\btensorflow\b|\bTensorFlow\b|\bstrategy\.(?:run|scope|reduce)\b"
        r"|\bdrop_remainder\b|\bmodel\.fit\(|\bdataset\.repeat\("
    ),
    "jax": lazy_pattern(r"\bjax\.|\bJAX_|\bJAX\b|\blax\."),
}
"""What in a fix shows that it is meant for one framework."""
_SPOKEN = {
    "torch": lazy_pattern(
        r"\btorch(?:run|\.|/)|\bProcessGroup|\bDistributedDataParallel|\bc10d?::|\bTCPStore\b|\[PG ID|\[rank\d+\]:"
    ),
    "tensorflow": lazy_pattern(
        r"\btensorflow\b|\btf_keras\b|\bTF_CONFIG\b|/job:(?:worker|ps|chief)|\btf\.distribute|MultiWorkerMirrored"
        r"|base_collective_executor|\bkeras/"
    ),
    "jax": lazy_pattern(r"\bjax(?:lib)?[./]|\bJAX_|\bjax\b|\bJaxRuntimeError|\bXlaRuntimeError"),
}
"""What in evidence shows its framework. (JAX also prints messages of TensorFlow's services, so JAX comes first.)"""


def frameworks_of(seen: EvidenceSet) -> frozenset[str]:
    """The frameworks in the evidence: as the guard says, else by stacks, else by what was printed."""
    told = frozenset(e.fact.framework for e in seen.all(WorldFormed) if e.fact.framework in _FOR)
    if told:
        return told
    raised = [e.fact for e in (*seen.all(ExceptionRaised), *seen.all(StackDump))]
    files = "\n".join(frame.file for fact in raised[:ENOUGH] for frame in fact.frames if frame.file)  # type: ignore[attr-defined]
    return _named(files) or _named("\n".join(e.quote[:500] for e in seen.items[:ENOUGH]))


def _named(text: str) -> frozenset[str]:
    found = frozenset(name for name, words in _SPOKEN.items() if words.search(text))
    return frozenset({"jax"}) if found == {"jax", "tensorflow"} and "tensorflow/python" not in text else found


def is_for(fix: Fix) -> frozenset[str]:
    """The frameworks that a fix is for; none: it is for all."""
    text = f"{fix.do} {fix.command or ''} {fix.code or ''}"
    return frozenset(name for name, words in _FOR.items() if words.search(text))


def without_advice_for_others(finding: Finding, seen: EvidenceSet) -> Finding:
    """The finding without fixes for a framework that the run does not use."""
    used = seen.once(frameworks_of)
    if len(used) != 1:
        return finding
    kept = tuple(left for fix in finding.fixes if (left := _for(used, fix)) is not None)
    return finding if kept == finding.fixes else replace(finding, fixes=kept)


def _for(used: frozenset[str], fix: Fix) -> Fix | None:
    """What is left of a fix for these frameworks: if only its command or code is for another one, its text stays."""
    meant = is_for(fix)
    if not meant or meant & used:
        return fix
    told = replace(fix, command=None, code=None)
    return None if is_for(told) else told
