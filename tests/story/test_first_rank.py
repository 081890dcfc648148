"""Which rank failed first."""

from dataclasses import replace

import pytest

from keepstep.model.cause import Cause
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSeen
from keepstep.model.facts.network import PeerLost, RendezvousTimeout
from keepstep.model.facts.process import ExceptionRaised, ProcessExited, TaskNamed, TracebackCut
from keepstep.model.facts.rank_places import RanksOnHost
from keepstep.model.facts.resource import DeviceMemoryExhausted
from keepstep.model.facts.sync import RanksMissing
from keepstep.model.finding import Confidence, Finding, Severity, Standing, ranks_of
from keepstep.model.identity import Rank
from keepstep.story.first_rank import first_exits, first_rank, first_to_fail
from keepstep.story.rank_endings import SUPERVISOR


def at(line: int, fact: Fact, rank: int | None = None, when: float | None = None) -> Evidence[Fact]:
    who = None if rank is None else Rank(index=rank)
    return Evidence(fact=fact, origin=Origin(source="log", line=line), rank=who, at=when)


def root(
    *evidence: Evidence[Fact], cause: Cause = Cause.RESOURCE_GPU_OOM, standing: Standing = Standing.MECHANISM
) -> Finding:
    return Finding(
        rule="RES001",
        cause=cause,
        title="",
        because="",
        evidence=evidence,
        ranks=ranks_of(evidence),
        confidence=Confidence.ESTABLISHED,
        severity=Severity.FATAL,
        standing=standing,
    )


def full(line: int, rank: int | None = None, device: str | None = None) -> Evidence[Fact]:
    return at(line, DeviceMemoryExhausted(device=device), rank)


def first(rank: int, when: float | None = None) -> ProcessExited:
    return ProcessExited(reporter="torchrun", rank=rank, code=1, first=True, failed_at=when)


def named(found: Finding, *more: Evidence[Fact]) -> tuple[int, ...]:
    return first_rank(EvidenceSet(items=(*found.evidence, *more)), found)


def test_of_many_ranks_that_printed_the_same_the_launcher_tells_the_first():
    assert named(root(*(full(n, n) for n in range(8))), at(9, first(5))) == (5,)


def test_many_ranks_stay_named_where_no_launcher_tells():
    assert named(root(*(full(n, n) for n in range(3)))) == (0, 1, 2)


@pytest.mark.parametrize(("times", "said"), [((None, None), (5,)), ((7.0, 7.4), (5,)), ((7.4, 7.0), (5, 2))])
def test_of_few_ranks_that_fail_alike_in_one_log_the_first_is_named_unless_the_times_differ(times, said):
    struck = [at(3, DeviceMemoryExhausted(), 5, times[0]), at(4, DeviceMemoryExhausted(), 2, times[1])]
    others = [at(9 + rank, PeerLost(how="gone"), rank) for rank in (0, 1, 3, 4, 6, 7)]
    assert named(root(*struck), *others) == said


def test_one_that_the_launcher_names_and_of_whom_nothing_is_shown_is_named_besides():
    assert named(root(full(1, 2)), at(5, first(1))) == (2, 1)


@pytest.mark.parametrize(("later", "said"), [(2.0, (1,)), (0.1, (1, 0))])
def test_one_that_was_ended_after_the_failure_is_not(later: float, said: tuple[int, ...]):
    raised = at(1, ExceptionRaised(type="TypeError", message="", frames=()), 1, 100.0)
    ended = ProcessExited(reporter=SUPERVISOR, rank=0, code=1, first=True)
    assert named(root(raised, cause=Cause.USER_CODE_EXCEPTION), at(2, ended, 0, 100.0 + later)) == said


def test_one_that_the_launcher_names_but_that_shows_another_error_is_not():
    assert named(root(full(1, 2)), at(3, ExceptionRaised(type="DistBackendError", message=""), 1), at(5, first(1))) == (
        2,
    )


def test_a_killed_process_is_the_one_named_where_its_loss_is_told():
    killed = root(full(1), cause=Cause.RESOURCE_HOST_OOM_KILLED)
    lost = at(30, PeerLost(how="a Ray actor died"))
    assert named(killed, lost, at(33, TaskNamed(rank=3))) == (3,)
    assert named(killed, lost, at(33, TaskNamed(rank=3)), at(34, TaskNamed(rank=4))) == ()
    assert named(root(full(1)), lost, at(33, TaskNamed(rank=3))) == ()


def test_one_whose_traceback_is_cut_failed_too():
    cut = at(3, TracebackCut(), 0)
    assert named(root(full(1)), cut) == (0,)


@pytest.mark.parametrize("cause", [Cause.SYNC_COLLECTIVE_MISMATCH, Cause.NETWORK_PORT_IN_USE])
def test_what_is_felt_by_those_who_did_not_begin_it_is_left_to_its_rule(cause):
    assert named(root(full(1, 2), cause=cause), at(5, first(1))) == (2,)


@pytest.mark.parametrize(("below", "expected"), [(0, (3,)), (60, (3,)), (61, ()), (-1, ())])
def test_of_several_that_failed_the_one_within_sixty_lines_below_the_message_is_named(below, expected):
    failed = [at(100 + below, ExceptionRaised(type="RuntimeError", message=""), 3)]
    failed += [at(900, ExceptionRaised(type="RuntimeError", message=""), rank) for rank in (5, 6)]
    assert named(root(full(100)), *failed) == expected


def test_of_several_launchers_the_earliest_first_failure_counts():
    seen = EvidenceSet(items=(at(1, first(0, 50.0)), at(2, first(4, 1.0))))
    assert [e.fact.rank for e in first_exits(seen)] == [4]
    assert first_to_fail(seen) == 4


def test_launchers_that_tell_no_time_and_disagree_tell_nothing():
    assert first_to_fail(EvidenceSet(items=(at(1, first(0)), at(2, first(4, 1.0))))) is None


def test_the_agents_local_rank_is_made_global_by_the_process():
    said = at(1, ProcessExited(reporter="torchrun", local_rank=2, code=1, pid=77))
    table = at(2, ProcessExited(reporter="torchrun", rank=10, local_rank=2, code=1, pid=77))
    assert first_to_fail(EvidenceSet(items=(said,))) == 2
    assert first_to_fail(EvidenceSet(items=(said, table))) == 10


def test_a_task_named_above_the_words_serves_where_none_is_named_below():
    found = root(full(5))
    above, below = at(4, TaskNamed(rank=3)), at(8, TaskNamed(rank=6))
    assert named(found, above) == (3,)
    assert named(found, above, below) == (6,)


def test_the_device_that_ran_full_stands_for_the_rank_in_a_world_of_several():
    world = at(1, WorldSeen(size=8))
    assert named(root(full(5, device="GPU 3")), world) == (3,)
    assert named(root(full(5, device="GPU 0")), world) == ()
    assert named(root(full(5, device="GPU 3"))) == ()


@pytest.mark.parametrize(("lead", "expected"), [(10.0, (3,)), (1.0, (0, 1, 3))])
def test_of_many_ranks_one_that_was_struck_clearly_before_all_others_is_the_first(lead, expected):
    others = [at(n, DeviceMemoryExhausted(), n, 100.0) for n in (0, 1)]
    running = [at(0, WorldSeen(size=4), n, 50.0) for n in (0, 1, 3)]
    assert named(root(*others, at(5, DeviceMemoryExhausted(), 3, 100.0 - lead)), *running) == expected


def test_a_rank_that_had_written_nothing_yet_did_not_follow_the_first():
    others = [at(n, DeviceMemoryExhausted(), n, 100.0) for n in (0, 1)]
    assert named(root(*others, at(5, DeviceMemoryExhausted(), 3, 90.0))) == (0, 1, 3)


@pytest.mark.parametrize(("ended", "expected"), [((6, 7), (6, 7)), ((1, 6, 7), ())])
def test_one_or_two_whom_a_launcher_names_as_ended_are_named_where_nothing_else_tells(ended, expected):
    exits = [at(9, ProcessExited(reporter="srun", rank=rank, code=1)) for rank in ended]
    assert named(root(full(5)), *exits) == expected


def test_the_first_that_gave_up_waiting_is_not_the_one_that_began_it():
    waited = replace(
        root(
            at(4, RendezvousTimeout(where="store key"), 5), cause=Cause.NETWORK_TIMEOUT_SLOW, standing=Standing.SYMPTOM
        ),
        ranks=(),
    )
    assert named(waited, at(3, first(5))) == ()


def test_one_that_the_launcher_names_first_and_that_did_not_wait_is_the_one():
    waited = replace(
        root(
            at(4, RendezvousTimeout(where="store key"), 5), cause=Cause.NETWORK_TIMEOUT_SLOW, standing=Standing.SYMPTOM
        ),
        ranks=(),
    )
    assert named(waited, at(3, first(2))) == (2,)


def test_a_local_rank_of_the_only_launcher_is_its_rank_and_one_among_several_hosts_is_not():
    ended = at(1, ProcessExited(reporter="DeepSpeed's launcher", local_rank=0, signal="SIGKILL"))
    assert first_to_fail(EvidenceSet(items=(ended,))) == 0
    of_a_host = replace(ended, origin=replace(ended.origin, stream="worker-1"))
    assert first_to_fail(EvidenceSet(items=(of_a_host,))) is None


@pytest.mark.parametrize(("lead", "expected"), [(3.0, 4), (1.0, None)])
def test_of_the_agents_of_several_hosts_the_one_that_was_clearly_first_is_believed(lead, expected):
    def said(rank: int, when: float) -> Evidence[Fact]:
        return at(1, ProcessExited(reporter=SUPERVISOR, code=1, first=True), rank, when)

    both = (said(0, 100.0), said(4, 100.0 - lead))
    hosts = at(1, RanksOnHost(host="node-1", ranks=(4, 5)))
    assert first_to_fail(EvidenceSet(items=(*both, hosts))) == expected
    assert first_to_fail(EvidenceSet(items=both)) is None, "one host has one agent, and it names one rank"


def test_ranks_that_fail_alike_in_logs_of_their_own_have_no_order():
    struck = [at(3, DeviceMemoryExhausted(), 5), at(4, DeviceMemoryExhausted(), 2)]
    struck[1] = replace(struck[1], origin=Origin(source="other.log", line=4))
    others = [at(9 + rank, PeerLost(how="gone"), rank) for rank in (0, 1, 3, 4, 6, 7)]
    assert named(root(*struck), *others) == (5, 2)


def test_the_only_one_that_failed_is_named_whatever_the_mechanism():
    failed = at(3, ExceptionRaised(type="RuntimeError", message=""), 3)
    lost = [at(5, PeerLost(how="gone"), rank) for rank in (0, 1)]
    assert named(root(full(1), cause=Cause.SYNC_COLLECTIVE_MISMATCH), failed, *lost) == (3,)


def test_the_only_one_that_did_not_complain_about_others_is_missed():
    lost = [at(5, PeerLost(how="gone"), rank) for rank in (0, 2)]
    waited = replace(root(*lost, standing=Standing.SYMPTOM), ranks=())
    assert named(waited) == (1,)


def test_two_processes_are_enough_for_the_device_to_stand_for_the_rank():
    assert named(root(full(5, device="GPU 1")), at(1, WorldSeen(size=2))) == (1,)


def test_an_exception_belongs_to_the_only_rank_that_had_ended_not_to_the_one_that_still_worked():
    raised = at(1, ExceptionRaised(type="StopIteration", message=""))
    shutdown = at(3, RanksMissing(missing=(0,), what="barrier Shutdown::1::0", ended=1))
    again = at(5, RanksMissing(missing=(0,), what="barrier"))
    assert named(root(raised, cause=Cause.USER_CODE_EXCEPTION), shutdown, again) == (1,)
    assert named(root(raised, cause=Cause.USER_CODE_EXCEPTION), again) == (0,)
