# SPDX-License-Identifier: Apache-2.0
"""Ask every rule, survive the ones that crash, and order what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from keepstep.base.wording import ranks as say_ranks
from keepstep.model.cause import Cause
from keepstep.model.evidence import Coverage, CoverageState, EvidenceSet
from keepstep.model.facts.guard import RankDoing, RankStopped
from keepstep.model.facts.rank_places import RanksOnHost
from keepstep.model.finding import Finding, Found, Severity, Standing, ranks_of
from keepstep.model.report import Report, RuleCrash, Verdict
from keepstep.model.rule import Rule
from keepstep.story.best_loss import best_loss
from keepstep.story.frameworks import without_advice_for_others
from keepstep.story.proof_of_end import ends_in_logs, is_proven
from keepstep.story.rank_endings import ended_well, ends_of, is_known_how_it_ended, is_supervised, stands_still_s
from keepstep.story.redundant_fixes import without_what_is_so
from keepstep.story.said_live import said_live
from keepstep.story.users_line import with_users_line

_OF_BROKEN_RUNS = {
    Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
    Cause.NETWORK_TIMEOUT_SLOW,
    Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
    Cause.WORKER_PARAMETER_SERVER_LOST,
    Cause.UNKNOWN_NOT_ESTABLISHED,
}
"""Lost peers, stalls and hangs: if every rank finished with status 0, none of them mattered."""
_HANGS = {Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK}


Order = Callable[[EvidenceSet, list[Finding]], tuple[Finding, ...]]


def _in_causal_order(seen: EvidenceSet, findings: list[Finding]) -> tuple[Finding, ...]:
    from keepstep.story.causality import in_causal_order  # a program's text needs no such order, and no time for it

    return in_causal_order(seen, findings)


def diagnose(seen: EvidenceSet, rules: Iterable[Rule], order: Order = _in_causal_order) -> Report:
    """The report on one set of evidence. Pure: the same set gives the same report."""
    findings: list[Finding] = []
    crashed: list[RuleCrash] = []
    guesses: list[Rule] = []
    for each in rules:
        if each.standing is Standing.GUESS:
            guesses.append(each)
        else:
            _ask(each, seen, findings, crashed)
    if not findings or (seen.broken and not any(f.severity is Severity.FATAL for f in findings)):
        for each in guesses:
            _ask(each, seen, findings, crashed)
    if ended_well(seen):
        findings = [each for each in findings if each.cause not in _OF_BROKEN_RUNS and not _is_by_design(seen, each)]
    ends = seen.once(ends_in_logs)
    plain = [without_advice_for_others(without_what_is_so(each, seen), seen) for each in findings]
    ordered = order(seen, [with_users_line(each, seen) for each in plain])
    return Report(
        verdict=_verdict(seen, ordered, is_proven(ends)),
        findings=ordered,
        coverage=(*seen.coverage, *_unknown_ends(seen, ordered)),
        crashed=tuple(crashed),
        ranks=tuple(sorted(seen.ranks)),
        world_size=seen.world_size,
        alive=tuple(sorted(rank for rank in seen.once(ends_of).living if rank is not None)),
        ended=ends,
        hosts=_hosts(seen),
        during=said_live(seen, ordered),
        notes=best_loss(seen),
    )


def _ask(each: Rule, seen: EvidenceSet, findings: list[Finding], crashed: list[RuleCrash]) -> None:
    if each.needs and not any(seen.has(kind) for kind in each.needs):
        return
    try:
        findings.extend(_finding(each, found) for found in each.find(seen))
    except Exception as error:
        crashed.append(RuleCrash(rule=each.id, error=f"{type(error).__name__}: {error}"))


def _finding(each: Rule, found: Found) -> Finding:
    return Finding(
        rule=each.id,
        cause=found.cause or each.cause,
        title=found.title,
        because=found.because,
        evidence=found.evidence,
        ranks=found.ranks if found.ranks is not None else ranks_of(found.evidence),
        confidence=found.confidence or each.confidence,
        severity=found.severity or each.severity,
        standing=found.standing or each.standing,
        fixes=found.fixes,
        explains=each.explains,
    )


def _verdict(seen: EvidenceSet, findings: tuple[Finding, ...], proven: bool) -> Verdict:
    if findings and findings[0].severity is Severity.FATAL:
        hung = findings[0].cause in _HANGS and not seen.broken
        return Verdict.HUNG if hung else Verdict.FAILED
    if any(f.severity is not Severity.NOTE for f in findings):
        return Verdict.DEGRADED
    states = {c.state for c in seen.coverage}
    looked = CoverageState.CHECKED in states and CoverageState.PARTLY not in states
    stopped = bool(seen.all(RankStopped)) and not ended_well(seen)
    known = is_known_how_it_ended(seen) and stands_still_s(seen) is None and not stopped
    ended = proven or is_supervised(seen) or seen.once(ends_of).all_well
    return Verdict.HEALTHY if looked and known and ended and not seen.once(ends_of).living else Verdict.UNKNOWN


def _hosts(seen: EvidenceSet) -> tuple[tuple[int, str], ...]:
    """Where each rank ran, by the agent that led the run, else by the ranks' black boxes."""
    found = {e.who: e.rank.node for e in seen.all(RankDoing) if e.who is not None and e.rank and e.rank.node}
    found |= {rank: e.fact.host for e in seen.all(RanksOnHost) for rank in e.fact.ranks}
    return tuple(sorted(found.items())) if len(set(found.values())) > 1 else ()


def _is_by_design(seen: EvidenceSet, finding: Finding) -> bool:
    """Whether it only reports the end of processes that others end when the work is done."""
    ended = {e.fact.pid for e in seen.once(ends_of).well.values() if not e.fact.goodbye}
    return bool(ended) and all(getattr(e.fact, "pid", None) in ended for e in finding.evidence)


def _unknown_ends(seen: EvidenceSet, findings: tuple[Finding, ...]) -> list[Coverage]:
    """What nobody can know here about the end of the run: that is not healthy."""
    ends, unavailable = seen.once(ends_of), CoverageState.UNAVAILABLE
    if ends.living:
        still = stands_still_s(seen)
        if still is None or findings:
            return [Coverage(what="how the run ends", state=unavailable, why="it still runs")]
        return [Coverage(what=f"why it has stood still for {still:.0f} s", state=unavailable, why="ask again soon")]
    if is_supervised(seen):
        if is_known_how_it_ended(seen):
            return []
        why = "keepstep run has recorded no end yet"
        return [Coverage(what="how the run ended", state=unavailable, why=why)]
    if not ends.missing:
        return []
    why = "it left no black box here; copy its folder from its host"
    return [Coverage(what=f"how {say_ranks(ends.missing)} ended", state=unavailable, why=why)]
