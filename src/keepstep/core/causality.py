# SPDX-License-Identifier: Apache-2.0
"""What began it, and what followed: findings in causal order, each with its role.

The order is decided in this sequence: what explains another goes before it; what can
explain (a mechanism) before what cannot (a lost peer); a finding that is clearly earlier
before a later one; a sure one before a guess.
"""

from __future__ import annotations

from dataclasses import replace

from keepstep.core.evidence import Evidence, EvidenceSet
from keepstep.core.facts.base import Fact
from keepstep.core.facts.network import PeerLost
from keepstep.core.facts.process import ExceptionRaised, FatalSignal, NativeAbort, ProcessExited, TaskNamed
from keepstep.core.facts.sync import CollectiveTimeout, RanksMissing
from keepstep.core.facts.training import StreamEnded
from keepstep.core.finding import Confidence, Finding, Role, Severity, Standing, ranks_of

CLEARLY_EARLIER_S = 2.0
"""Clocks of hosts differ and lines are buffered: less than this tells nothing."""
NEXT_LINES = 60
LINES_OF_A_MESSAGE = 8


def in_causal_order(seen: EvidenceSet, findings: list[Finding]) -> tuple[Finding, ...]:
    """Findings with the root cause first and every role set."""
    merged = _merge_equal(findings)
    fatal = [f for f in merged if f.severity is Severity.FATAL]
    others = [f for f in merged if f.severity is not Severity.FATAL]
    if not fatal:
        return tuple(
            replace(f, role=Role.INITIATING if n == 0 else Role.CONTRIBUTING)
            for n, f in enumerate(sorted(others, key=lambda f: _key(seen, f)))
        )
    root = _root(seen, fatal)
    named = root if root.ranks else replace(root, ranks=_whose(seen, root))
    rest = sorted((f for f in fatal if f is not root), key=lambda f: _key(seen, f))
    return (
        replace(named, role=Role.INITIATING),
        *(replace(f, role=Role.CASCADE) for f in rest),
        *(replace(f, role=Role.CONTRIBUTING) for f in sorted(others, key=lambda f: _key(seen, f))),
    )


def _root(seen: EvidenceSet, fatal: list[Finding]) -> Finding:
    unexplained = [f for f in fatal if not any(_explains(g, f) for g in fatal if g is not f)] or fatal
    ordered = sorted(unexplained, key=lambda f: _key(seen, f))
    root = ordered[0]
    for other in ordered[1:]:
        if other.standing is Standing.EXCEPTION and root.standing is Standing.MECHANISM and _precedes(other, root):
            root = other
    return root


def _whose(seen: EvidenceSet, root: Finding) -> tuple[int, ...]:
    """The rank of a root cause whose own lines name none.

    Kernels, drivers and native libraries print without any rank. Asked in turn: whom the launcher calls the
    first to fail; the only one that failed; the one that failed just below the words; whom the others miss.
    A symptom is felt by those who print it: where a rule names none of them, who failed near it is not to blame.
    """
    first = {e.fact.rank for e in seen.all(ProcessExited) if e.fact.first and e.fact.rank is not None}
    if len(first) == 1:
        return tuple(first)
    if root.standing is Standing.SYMPTOM and (ranks_of(root.evidence) or root.cause.value.startswith("sync.")):
        return _missed(seen)
    ends: list[Evidence[Fact]] = [e for e in seen.all(ExceptionRaised) if not e.fact.logged]
    ends += [*seen.all(FatalSignal), *seen.all(NativeAbort)]
    failed = {e.who for e in ends if e.who is not None}
    failed |= {e.who for e in seen.all(StreamEnded) if e.who is not None and e.fact.last.startswith('File "')}
    for exited in seen.all(ProcessExited):
        who = exited.who if exited.who is not None else exited.fact.local_rank
        if who is not None and (exited.fact.code or exited.fact.signal):
            failed.add(who)
    if len(failed) == 1:
        return tuple(failed)
    for piece in root.evidence:
        below = [e for e in ends if e.origin.source == piece.origin.source and e.who is not None]
        below = [e for e in below if 0 <= (e.origin.line or 0) - (piece.origin.line or 0) <= NEXT_LINES]
        if below and below[0].who is not None:
            return (below[0].who,)
    named = next((e.who for piece in root.evidence for e in seen.near(piece, TaskNamed, after=LINES_OF_A_MESSAGE)), None)
    return _missed(seen) if named is None else (named,)


def _missed(seen: EvidenceSet) -> tuple[int, ...]:
    """The one rank that the others name as gone, or the only one that did not complain of others."""
    named = {e.fact.peer_rank for e in seen.all(PeerLost) if e.fact.peer_rank is not None}
    named |= {rank for e in seen.all(RanksMissing) for rank in e.fact.missing}
    if len(named) == 1:
        return tuple(named)
    waited: set[int] = set()
    for kind in (CollectiveTimeout, PeerLost):
        waited |= {e.who for e in seen.all(kind) if e.who is not None}
    world = set(range(max(seen.world_size or 0, max(waited, default=-1) + 1)))
    silent = world - waited
    return tuple(silent) if len(silent) == 1 and len(waited) >= 2 else ()


def _explains(one: Finding, other: Finding) -> bool:
    if one.confidence is Confidence.HYPOTHESIS and other.confidence is not Confidence.HYPOTHESIS:
        return False
    return other.cause in one.explains and one.cause is not other.cause and not _precedes(other, one, by=600.0)


def _key(seen: EvidenceSet, finding: Finding) -> tuple[float, int]:
    """A cause that is only a hypothesis stands behind an exception that is seen, before a mere symptom."""
    first = min((seen.position.get(id(e), 0) for e in finding.evidence), default=0)
    doubtful = finding.confidence is Confidence.HYPOTHESIS
    standing = max(finding.standing.value, Standing.EXCEPTION.value) + 0.5 if doubtful else finding.standing.value
    return (standing, first)


def _precedes(one: Finding, other: Finding, by: float = CLEARLY_EARLIER_S) -> bool:
    """Whether one finding's first evidence is clearly older, by clocks that can be compared."""
    mine = [e.at for e in one.evidence if e.at is not None]
    theirs = [e.at for e in other.evidence if e.at is not None]
    return bool(mine and theirs) and min(mine) + by < min(theirs)


def _merge_equal(findings: list[Finding]) -> list[Finding]:
    """One finding where a rule said the same of several ranks."""
    merged: dict[tuple[str, str, Severity], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.title, finding.severity)
        if key in merged:
            known = merged[key]
            merged[key] = replace(
                known,
                evidence=known.evidence + finding.evidence,
                ranks=tuple(dict.fromkeys(known.ranks + finding.ranks)),
            )
        else:
            merged[key] = finding
    return list(merged.values())
