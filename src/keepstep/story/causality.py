# SPDX-License-Identifier: Apache-2.0
"""What began the failure and what followed: findings in causal order, each with its role.

The order is decided in this sequence: what explains another finding goes before it; what can explain (a mechanism)
before what cannot (a lost peer); a clearly earlier finding before a later one; an established one before a guess.
"""

from __future__ import annotations

from dataclasses import replace

from keepstep.model.cause import Cause
from keepstep.model.evidence import EvidenceSet
from keepstep.model.facts.rank_places import RankKnownBy
from keepstep.model.finding import Confidence, Finding, Role, Severity, Standing
from keepstep.story.first_rank import CLEARLY_EARLIER_S, first_rank


def in_causal_order(seen: EvidenceSet, findings: list[Finding]) -> tuple[Finding, ...]:
    """Findings with the root cause first and every role set."""
    merged = _merge_equal(findings)
    fatal = [f for f in merged if f.severity is Severity.FATAL]
    mild = [f for f in merged if f.severity is not Severity.FATAL]
    others = sorted(mild, key=lambda f: (any(_explains(seen, g, f) for g in mild if g is not f), _key(seen, f)))
    if not fatal:
        return tuple(replace(f, role=Role.INITIATING if n == 0 else Role.CONTRIBUTING) for n, f in enumerate(others))
    root = _root(seen, fatal)
    beside = [f for f in fatal if _is_independent(f, root)]
    named = _side_by_side(root, beside) if beside else replace(root, ranks=first_rank(seen, root))
    named = replace(named, placed=how_known(seen, named))
    rest = sorted((f for f in fatal if f is not root and f not in beside), key=lambda f: _key(seen, f))
    return (
        replace(named, role=Role.INITIATING),
        *(replace(f, role=Role.CONTRIBUTING if _may_be_earlier(f, root) else Role.CASCADE) for f in rest),
        *(replace(f, role=Role.CONTRIBUTING) for f in others),
    )


def _is_independent(one: Finding, root: Finding) -> bool:
    """Whether a rule found that other ranks stopped at another place at the same time: no consequence of the root."""
    if one is root or one.rule != root.rule or one.confidence is Confidence.HYPOTHESIS:
        return False
    if one.cause is not Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK:
        return False
    apart = bool(one.ranks) and bool(root.ranks) and set(one.ranks).isdisjoint(root.ranks)
    return apart and one.confidence is root.confidence and not (_precedes(one, root) or _precedes(root, one))


def _may_be_earlier(one: Finding, root: Finding) -> bool:
    """Whether the root's lines state no time, and this may have happened before them: then it followed from nothing."""
    if one.cause in root.explains or not {e.origin.source for e in one.evidence}.isdisjoint(
        e.origin.source for e in root.evidence
    ):
        return False
    mine = [e.at for e in one.evidence if e.known_at is not None and e.at is not None]
    theirs = [e for e in root.evidence if e.at is not None]
    return (
        bool(mine and theirs) and all(e.known_at is None for e in theirs) and min(mine) < min(e.latest for e in theirs)
    )


def _side_by_side(root: Finding, beside: list[Finding]) -> Finding:
    return replace(
        root,
        title="; and ".join((root.title, *(each.title for each in beside))),
        ranks=tuple(dict.fromkeys(rank for each in (root, *beside) for rank in each.ranks)),
        evidence=tuple(e for each in (root, *beside) for e in each.evidence),
    )


def _root(seen: EvidenceSet, fatal: list[Finding]) -> Finding:
    unexplained = [f for f in fatal if not any(_explains(seen, g, f) for g in fatal if g is not f)] or fatal
    ordered = sorted(unexplained, key=lambda f: _key(seen, f))
    root = ordered[0]
    for other in ordered[1:]:
        if other.standing is Standing.EXCEPTION and root.standing is Standing.MECHANISM and _precedes(other, root):
            root = other
    return root


def _explains(seen: EvidenceSet, one: Finding, other: Finding) -> bool:
    """A guess explains nothing that is better founded, except a lost peer: a cause only if nothing came before."""
    if one.confidence is Confidence.HYPOTHESIS and other.confidence is not Confidence.HYPOTHESIS:
        lost = other.cause is Cause.NETWORK_CONNECTION_RESET_PEER_DIED
        if not lost or _first(seen, one) >= _first(seen, other):
            return False
    return other.cause in one.explains and one.cause is not other.cause and not _precedes(other, one, by=600.0)


def _key(seen: EvidenceSet, finding: Finding) -> tuple[float, int]:
    """A hypothesis ranks after an exception that was seen, and before a mere symptom."""
    doubtful = finding.confidence is Confidence.HYPOTHESIS
    standing = max(finding.standing.value, Standing.EXCEPTION.value) + 0.5 if doubtful else finding.standing.value
    return (standing, _first(seen, finding))


def _first(seen: EvidenceSet, finding: Finding) -> int:
    """The place of its first evidence among all."""
    return min((at for e in finding.evidence if (at := seen.position.get(id(e))) is not None), default=0)


def _precedes(one: Finding, other: Finding, by: float = CLEARLY_EARLIER_S) -> bool:
    """Whether one finding's first evidence is clearly earlier, by comparable clocks and beyond their uncertainty."""
    mine = [e.latest for e in one.evidence if e.at is not None]
    theirs = [e.at - e.within_s for e in other.evidence if e.at is not None]
    return bool(mine and theirs) and min(mine) + by < min(theirs)


def _merge_equal(findings: list[Finding]) -> list[Finding]:
    """Merge findings in which a rule says the same about several ranks."""
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


# --- How the report knows the ranks of a finding, in one line each.

FEW = 2


def how_known(seen: EvidenceSet, finding: Finding) -> tuple[str, ...]:
    """How each of its ranks is known; without a rank, the node and the number there of the process that printed it."""
    notes = seen.all(RankKnownBy)
    if not finding.ranks:
        places = {e.origin.writer for e in finding.evidence}
        here = [e for e in notes if e.fact.rank is None and e.origin.writer in places]
        said = dict.fromkeys(e.fact.how for e in here)
        return tuple(f"its rank is not known: {how}" for how in said) if len(said) == 1 else ()
    if len(finding.ranks) > FEW:
        return ()
    how = {e.fact.rank: e.fact.how for e in reversed(notes)}
    return tuple(f"rank {rank}: {how[rank]}" for rank in finding.ranks if rank in how)
