"""What began the failure, and what followed."""

from dataclasses import replace
from itertools import permutations

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import PeerLost, PortTaken
from keepstep.model.facts.process import ExceptionRaised, ProcessExited, TaskNamed
from keepstep.model.facts.sync import CollectiveTimeout
from keepstep.model.finding import Confidence, Finding, Role, Severity, Standing
from keepstep.model.identity import Rank
from keepstep.story.causality import in_causal_order


def seen_at(fact: Fact, line: int, rank: int | None = None, at: float | None = None) -> Evidence[Fact]:
    who = Rank(index=rank) if rank is not None else None
    return Evidence(fact=fact, origin=Origin(source="log", line=line), rank=who, at=at)


def finding(
    cause: Cause, evidence: Evidence[Fact], standing: Standing, explains: tuple[Cause, ...] = (), **more
) -> Finding:
    given = {
        "rule": cause.name,
        "cause": cause,
        "title": cause.value,
        "because": "",
        "evidence": (evidence,),
        "ranks": () if evidence.who is None else (evidence.who,),
        "confidence": Confidence.ESTABLISHED,
        "severity": Severity.FATAL,
        "standing": standing,
        "explains": explains,
    }
    return Finding(**{**given, **more})


LOST = finding(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, seen_at(PeerLost(how="reset"), 1, 0), Standing.SYMPTOM)
RAISED = finding(
    Cause.USER_CODE_EXCEPTION, seen_at(ExceptionRaised(type="KeyError", message=""), 5, 3), Standing.EXCEPTION
)
TAKEN = finding(Cause.NETWORK_PORT_IN_USE, seen_at(PortTaken(), 9, 2), Standing.MECHANISM)


def order(*findings: Finding) -> tuple[Finding, ...]:
    items = sorted((e for f in findings for e in f.evidence), key=lambda e: e.origin.line or 0)
    return in_causal_order(EvidenceSet(items=tuple(items)), list(findings))


def test_a_mechanism_goes_before_an_exception_before_a_symptom_in_whatever_order_they_were_found():
    for some in permutations((LOST, RAISED, TAKEN)):
        ordered = order(*some)
        assert [f.cause for f in ordered] == [TAKEN.cause, RAISED.cause, LOST.cause]
        assert [f.role for f in ordered] == [Role.INITIATING, Role.CASCADE, Role.CASCADE]


def test_an_exception_that_is_clearly_earlier_began_it():
    early = finding(
        RAISED.cause, seen_at(ExceptionRaised(type="KeyError", message=""), 5, 3, at=100.0), Standing.EXCEPTION
    )
    late = finding(TAKEN.cause, seen_at(PortTaken(), 9, 2, at=160.0), Standing.MECHANISM)
    assert order(late, early)[0].cause is early.cause


def test_clocks_that_differ_by_a_second_tell_nothing():
    early = finding(
        RAISED.cause, seen_at(ExceptionRaised(type="KeyError", message=""), 5, 3, at=100.0), Standing.EXCEPTION
    )
    late = finding(TAKEN.cause, seen_at(PortTaken(), 9, 2, at=101.0), Standing.MECHANISM)
    assert order(late, early)[0].cause is late.cause


def test_what_explains_another_goes_before_it():
    loader = finding(Cause.DATA_LOADER_WORKER_KILLED, seen_at(PeerLost(how=""), 1), Standing.MECHANISM)
    memory = finding(Cause.RESOURCE_HOST_OOM_KILLED, seen_at(PeerLost(how=""), 2), Standing.MECHANISM, (loader.cause,))
    assert order(loader, memory)[0].cause is memory.cause


def test_a_warning_is_never_the_root_of_a_failure():
    warning = finding(TAKEN.cause, seen_at(PortTaken(), 1), Standing.MECHANISM, severity=Severity.WARNING)
    ordered = order(warning, LOST)
    assert ordered[0].cause is LOST.cause
    assert ordered[1].role is Role.CONTRIBUTING


def test_equal_findings_of_many_ranks_are_one():
    many = [finding(LOST.cause, seen_at(PeerLost(how="reset"), n, n), Standing.SYMPTOM) for n in range(63)]
    ordered = order(RAISED, *many)
    assert len(ordered) == 2
    assert len(ordered[1].ranks) == 63


def test_a_root_without_a_rank_gets_the_one_that_is_said_to_have_failed_first():
    anonymous = finding(TAKEN.cause, seen_at(PortTaken(), 1), Standing.MECHANISM)
    said = seen_at(ProcessExited(reporter="torchrun", rank=2, code=1, first=True), 5)
    ordered = in_causal_order(EvidenceSet(items=(*anonymous.evidence, said)), [anonymous])
    assert ordered[0].ranks == (2,)


def test_a_root_without_a_rank_gets_the_process_that_failed_just_below():
    anonymous = finding(TAKEN.cause, seen_at(PortTaken(), 1), Standing.MECHANISM)
    below = seen_at(ExceptionRaised(type="RuntimeError", message=""), 3, 1)
    later = seen_at(ExceptionRaised(type="RuntimeError", message=""), 30, 0)
    ordered = in_causal_order(EvidenceSet(items=(*anonymous.evidence, below, later)), [anonymous])
    assert ordered[0].ranks == (1,)


def test_a_root_without_a_rank_gets_the_task_that_its_message_names_below():
    anonymous = finding(TAKEN.cause, seen_at(PortTaken(), 1), Standing.MECHANISM)
    near, far = seen_at(TaskNamed(rank=4), 3), seen_at(TaskNamed(rank=5), 30)
    assert in_causal_order(EvidenceSet(items=(*anonymous.evidence, near, far)), [anonymous])[0].ranks == (4,)
    assert in_causal_order(EvidenceSet(items=(*anonymous.evidence, far)), [anonymous])[0].ranks == ()


def test_a_wait_that_blames_nobody_does_not_blame_the_one_who_printed_its_exception():
    waited = seen_at(CollectiveTimeout(op="ALLREDUCE"), 1, 0)
    hang = finding(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, waited, Standing.SYMPTOM, ranks=())
    raised = seen_at(ExceptionRaised(type="DistBackendError", message=""), 3, 0)
    assert in_causal_order(EvidenceSet(items=(waited, raised)), [hang])[0].ranks == ()


def test_a_wait_that_blames_nobody_gets_the_one_whom_all_others_miss():
    waited = seen_at(CollectiveTimeout(op="ALLREDUCE"), 1, 0)
    hang = finding(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, waited, Standing.SYMPTOM, ranks=())
    missed = seen_at(PeerLost(how="reset", peer_rank=3), 4, 1)
    assert in_causal_order(EvidenceSet(items=(waited, missed)), [hang])[0].ranks == (3,)


def test_no_rank_is_invented():
    anonymous = finding(TAKEN.cause, seen_at(PortTaken(), 1), Standing.MECHANISM)
    assert in_causal_order(EvidenceSet(items=anonymous.evidence), [anonymous])[0].ranks == ()


def test_a_guess_explains_another_guess_and_nothing_that_was_established():
    guess = replace(TAKEN, explains=(RAISED.cause,), confidence=Confidence.HYPOTHESIS)
    assert order(guess, RAISED)[0].cause is RAISED.cause
    assert order(guess, replace(RAISED, confidence=Confidence.HYPOTHESIS))[0].cause is TAKEN.cause


def test_what_may_have_been_later_is_not_clearly_earlier():
    def raised(within_s: float) -> Finding:
        evidence = seen_at(ExceptionRaised(type="KeyError", message=""), 5, 3, at=100.0)
        return replace(RAISED, evidence=(replace(evidence, within_s=within_s),))

    taken = replace(TAKEN, evidence=(seen_at(PortTaken(), 9, 2, at=104.0),))
    assert order(raised(1.0), taken)[0].cause is RAISED.cause
    assert order(raised(3.0), taken)[0].cause is TAKEN.cause


def test_two_ranks_that_stopped_at_the_same_time_stand_side_by_side():
    def stuck(rank: int, at: float) -> Finding:
        wait = seen_at(CollectiveTimeout(), rank + 1, rank, at)
        cause = Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK
        return finding(cause, wait, Standing.SYMPTOM, title=f"rank {rank} did not join", ranks=(rank,))

    one, other, later = stuck(2, 10.0), stuck(5, 10.5), stuck(7, 900.0)
    seen = EvidenceSet(items=tuple(e for each in (one, other, later) for e in each.evidence))
    first, *rest = in_causal_order(seen, [one, other, later])
    assert (first.ranks, first.title) == ((2, 5), "rank 2 did not join; and rank 5 did not join")
    assert [each.ranks for each in rest] == [(7,)]


def test_a_guess_about_what_came_before_explains_a_lost_peer_and_nothing_else():
    wait = finding(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        seen_at(CollectiveTimeout(), 0, 1),
        Standing.SYMPTOM,
        explains=(Cause.NETWORK_CONNECTION_RESET_PEER_DIED, Cause.NETWORK_PORT_IN_USE),
        confidence=Confidence.HYPOTHESIS,
    )
    seen = EvidenceSet(items=(*wait.evidence, *LOST.evidence, *TAKEN.evidence))
    assert in_causal_order(seen, [LOST, wait])[0].cause is wait.cause
    assert in_causal_order(seen, [TAKEN, wait])[0].cause is TAKEN.cause
    late = EvidenceSet(items=(*LOST.evidence, *wait.evidence))
    assert in_causal_order(late, [LOST, wait])[0].cause is LOST.cause
