# SPDX-License-Identifier: Apache-2.0
"""How ranks ended: which exited cleanly, which were killed and by whom, which never arrived, and which hung."""

from __future__ import annotations

import pytest

from keepstep.model.evidence import Coverage, CoverageState, Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.guard import CollectivesIssued, PeersWait, RankDoing, RankEnded, RankStopped, WorldFormed
from keepstep.model.facts.network import ConnectFailed, PeerLost
from keepstep.model.facts.process import ExceptionRaised, NativeAbort, ProcessExited, StartedWith, TerminationRequested
from keepstep.model.facts.resource import MemoryLow, OomKilled
from keepstep.model.facts.training import StepSeen
from keepstep.model.identity import Rank
from keepstep.model.report import Report
from keepstep.rules import builtin_rules
from keepstep.story.engine import diagnose


def of(fact: Fact, rank: int | None = None, at: float | None = 100.0, source: str = "notes") -> Evidence[Fact]:
    return Evidence(
        fact=fact,
        origin=Origin(source=source),
        rank=Rank(index=rank) if rank is not None else None,
        at=at,
        quote=str(fact),
    )


def judged(*items: Evidence[Fact]) -> Report:
    coverage = (Coverage(what="2 black boxes", state=CoverageState.CHECKED),)
    return diagnose(EvidenceSet(items=items, coverage=coverage), builtin_rules())


def left(rank: int, status: int | None = 0, at: float = 100.0, **more: object) -> Evidence[Fact]:
    goodbye = status is not None
    return of(RankEnded(goodbye=goodbye, status=status, steps=151, pid=1000 + rank, world=2, **more), rank, at)  # type: ignore[arg-type]


def killed(rank: int, at: float, signal: str = "SIGKILL", **more: object) -> Evidence[Fact]:
    return of(ProcessExited(reporter="the companion", signal=signal, pid=1000 + rank, **more), rank, at)  # type: ignore[arg-type]


LOST = PeerLost(how="connection closed by peer")


def test_all_said_goodbye() -> None:
    assert judged(left(0), left(1)).verdict.value == "healthy"


@pytest.mark.parametrize(("interrupted", "verdict"), [(True, "failed"), (False, "healthy")])
def test_ranks_that_stood_still_until_ctrl_c_and_left_with_status_0_are_not_healthy(
    interrupted: bool, verdict: str
) -> None:
    """As ranks of `mp.spawn` do. Without it, one may have saved for long after the last step."""
    stopped = of(RankStopped(phase="compute", steps=151, seconds=40.0, proven=True), 1, 90.0)
    ctrl_c = [of(ExceptionRaised(type="KeyboardInterrupt", message=""), source="run.log")] * interrupted
    assert judged(left(0), left(1), stopped, *ctrl_c).verdict.value == verdict


def test_one_did_not() -> None:
    report = judged(left(0, status=1, at=103.0, raised="RuntimeError"), left(1, status=None))
    assert report.root is not None and report.root.ranks == (1,)
    assert report.root.title == "rank 1's black box ends at step 151 without a goodbye"


def test_a_rank_of_the_users_own_launcher_that_was_gone_before_the_run_was_ended() -> None:
    gone = of(ProcessExited(reporter="keepstep run", pid=1001, first=True), 1, 101.0)
    others = (
        of(StartedWith()),
        left(0, status=1, at=103.0, raised="RuntimeError"),
        left(1, status=None),
        of(LOST, 0, 103.0),
    )
    report = judged(*others, gone)
    assert report.root is not None and report.root.title == "rank 1's black box ends at step 151 without a goodbye"
    report = judged(*others)  # unless the supervisor reports its exit, the supervisor may have ended it
    assert report.root is not None and report.root.ranks != (1,)


def ctrl_c(rank: int, steps: int, at: float) -> list[Evidence[Fact]]:
    ended = RankEnded(goodbye=True, status=130, raised="KeyboardInterrupt", steps=steps, pid=1000 + rank, world=2)
    doing = RankDoing(phase="end", steps=steps, silent_s=0.0, usual_step_s=0.03, pid=1000 + rank, world=2)
    return [
        of(ended, rank, at),
        of(doing, rank, at, source=f"rank{rank}.box"),
        killed(rank, at + 1.0, "SIGINT", first=rank == 1),
    ]


def test_ctrl_c_is_told_as_that() -> None:
    report = judged(*ctrl_c(0, 20, 120.0), *ctrl_c(1, 20, 119.0))
    assert report.root is not None and report.root.title == "the user ended the run (Ctrl-C)"


def test_sigint_of_which_nobody_says_who_sent_it_is_told_as_that_and_no_more() -> None:
    report = judged(of(TerminationRequested(signal="SIGINT"), 0, 120.0))
    assert report.root is not None and report.root.title == "the run was ended from outside (SIGINT)"


def test_a_hang_that_somebody_ends_by_ctrl_c_stays_the_cause() -> None:
    waits = of(
        PeersWait(waiting=(0,), late=(1,), seconds=0.8, where="elsewhere, at train.py:18, in load()", steps=19),
        0,
        100.0,
    )
    ended = [*ctrl_c(0, 20, 120.0), *ctrl_c(1, 19, 119.0)]
    report = judged(waits, *ended)
    assert report.root is not None and (report.root.cause.value, report.root.ranks) == (
        "sync.deadlock_or_hang_waiting_rank",
        (1,),
    )
    went_on = [*ctrl_c(0, 500, 120.0), *ctrl_c(1, 500, 119.0)]
    report = judged(waits, *went_on)
    assert report.root is not None and report.root.title == "the user ended the run (Ctrl-C)"


def test_lost_peers_of_a_run_that_finished_well_are_nothing() -> None:
    assert judged(left(0), left(1, at=108.0), of(LOST, 0)).verdict.value == "healthy"
    assert judged(left(0), left(1, status=3), of(LOST, 0)).verdict.value == "failed"


def test_the_supervisor_knows_that_all_finished_well() -> None:
    exits = [of(ProcessExited(reporter="keepstep run", code=0), rank) for rank in range(2)]
    assert judged(of(StartedWith()), *exits, of(LOST, 0)).verdict.value == "healthy"
    refused = of(
        ConnectFailed(why="refused", peer="127.0.0.1:19627"), 1, source="rank1.log"
    )  # it exited after the rank it reports
    assert judged(of(StartedWith()), *exits, refused).verdict.value == "healthy"
    assert judged(of(StartedWith()), refused).verdict.value == "failed"


def test_a_rank_that_is_nowhere_makes_it_unknown() -> None:
    report = judged(left(0), of(WorldFormed(size=2, index=0), 0))
    assert report.verdict.value == "unknown" and report.exit_status == 3
    assert any(each.what == "how rank 1 ended" for each in report.coverage)


def test_a_rank_that_never_came_is_named() -> None:
    waited = of(RankDoing(phase="start", steps=0, silent_s=90.0, world=3, alive=False), 0)
    report = judged(
        waited, left(0, status=None), left(1, status=None), of(RankDoing(phase="start", steps=0, world=3), 1)
    )
    assert any(f.title.startswith("rank 2 never arrived: 2 of 3 ranks") and f.ranks == (2,) for f in report.findings)


def test_those_that_others_end_need_no_goodbye() -> None:
    assert judged(left(0), left(1, status=None, killed_as="parameter server")).verdict.value == "healthy"
    assert (
        judged(left(0), left(1, status=None, killed_as="Ray worker"), killed(1, 101.0, "SIGTERM")).verdict.value
        == "healthy"
    )
    assert (
        judged(left(0), left(1, status=None, killed_as="Ray worker"), killed(1, 101.0, "SIGSEGV")).verdict.value
        == "failed"
    )


def test_a_ray_worker_that_still_trained_was_not_ended_by_design() -> None:
    """Ray ends the other ranks before they notice that one has died."""
    root = judged(
        *(
            left(rank, status=None, at=at, killed_as="Ray worker", in_training=True)
            for rank, at in ((0, 103.0), (1, 100.0))
        )
    ).root
    assert root is not None and (root.title, root.ranks) == (
        "rank 1's black box ends at step 151 without a goodbye",
        (1,),
    )


@pytest.mark.parametrize("other_at", [101.0, 99.2])
def test_a_ray_worker_that_was_missed_was_not_ended_by_design(other_at: float) -> None:
    """Ray ends all of them afterwards. A box is read once per second, so its times do not show which was first."""
    lost = (
        left(0, status=None, at=other_at, killed_as="Ray worker"),
        of(LOST, 0, at=None),
        left(1, status=None, killed_as="Ray worker"),
    )
    root = judged(*lost).root
    assert root is not None and (root.title, root.ranks) == (
        "rank 1's black box ends at step 151 without a goodbye",
        (1,),
    )


def test_sigkill_alone_is_nobodys() -> None:
    report = judged(
        left(0, status=1, at=103.0, raised="RuntimeError"), left(1, status=None), killed(1, 100.1, first=True)
    )
    assert report.root is not None and report.root.cause.value == "unknown.not_established"
    assert report.root.title == "rank 1 was killed from outside at step 151 (SIGKILL); nothing shows by whom"
    assert any("sacct" in (fix.command or "") for fix in report.root.fixes)


def test_sigkill_is_a_lack_of_memory_where_something_says_so() -> None:
    gone = (left(0, status=1, at=103.0, raised="RuntimeError"), left(1, status=None), killed(1, 100.1, first=True))
    low = judged(*gone, of(MemoryLow(left_bytes=1 << 20, total_bytes=1 << 34)))
    assert (
        low.root is not None
        and low.root.cause.value == "resource.host_oom_killed"
        and low.root.confidence.value != "established"
    )
    told = judged(*gone, of(OomKilled(by="cgroup", pid=1001), 1))
    assert told.root is not None and (told.root.cause.value, told.root.confidence.value) == (
        "resource.host_oom_killed",
        "established",
    )


def test_a_log_alone_is_a_guess_only_while_it_loads() -> None:
    end = of(ProcessExited(reporter="torchrun", code=-9, local_rank=1), 1, at=None)
    loading, training = judged(end), judged(of(StepSeen(step=7), 1, at=None), end)
    assert loading.root is not None and (loading.root.cause.value, loading.root.confidence.value) == (
        "resource.host_oom_killed",
        "hypothesis",
    )
    assert training.root is not None and training.root.cause.value == "unknown.not_established"


def test_a_hang_before_the_end_stays_the_cause() -> None:
    stopped = of(RankStopped(phase="compute", steps=151, seconds=20.0, proven=True), 1, at=90.0)
    doing = [of(RankDoing(phase="compute", steps=151, silent_s=20.0), rank, at=95.0) for rank in range(2)]
    ended = [left(rank, status=None, at=95.0) for rank in range(2)]
    for end in (
        killed(1, 96.0, first=True),
        killed(1, 96.0, "SIGTERM"),
        of(TerminationRequested(signal="SIGTERM", by="user"), 1, at=96.0),
    ):
        report = judged(stopped, *doing, *ended, end)
        assert report.root is not None and report.root.cause.value == "sync.deadlock_or_hang_waiting_rank", end


def test_a_healthy_run_that_is_told_to_end_is_preempted() -> None:
    ended = [left(rank, status=None, at=95.0) for rank in range(2)]
    asked = [of(TerminationRequested(signal="SIGTERM", by="user"), rank, at=94.0) for rank in range(2)]
    report = judged(of(StartedWith()), *asked, *ended)
    assert report.root is not None and report.root.cause.value == "preemption.sigterm"


def test_who_ended_first_is_not_the_one_that_the_launcher_ended_for_it() -> None:
    report = judged(left(1, status=None, at=100.0), left(0, status=None, at=101.0), killed(0, 101.0, "SIGTERM"))
    assert report.root is not None and report.root.ranks == (1,) and report.root.rule == "UNK003"


def test_of_two_that_ended_at_once_the_one_that_was_waited_for_was_the_first() -> None:
    """Boxes are written once per second: a killed rank may seem to outlive the one that was ended because of it."""
    ended = (left(0, status=None, at=100.0), left(1, status=None, at=100.7))
    waits = [of(RankDoing(phase="compute", steps=14, collective=16 - rank), rank, at=100.0) for rank in range(2)]
    root = judged(*ended, *waits).root
    assert root is not None and (root.rule, root.ranks, root.confidence.value) == ("UNK003", (1,), "supported")
    both = [of(RankDoing(phase="compute", steps=14, collective=16), rank, at=100.0) for rank in range(2)]
    root = judged(*ended, *both).root
    assert root is not None and (root.rule, root.confidence.value) == ("UNK003", "hypothesis")
    assert "too close to say which was first" in root.because
    late = judged(left(0, status=None, at=100.0), left(1, status=None, at=103.0), *waits).root
    assert late is not None and late.ranks == (0,)


def test_a_crash_in_a_rank_that_lost_a_killed_one_does_not_hide_the_kill() -> None:
    """Gloo aborts in a rank whose peer is gone, and its message may be read before the kill is noticed."""
    abort = of(NativeAbort(what="gloo::EnforceNotMet"), 0, 99.9, source="rank0.log")
    lost = of(LOST, 2, 100.1, source="rank2.log")
    ends = (killed(3, 100.0, first=True), killed(0, 100.3, "SIGABRT"))
    root = judged(abort, left(3, status=None), lost, *ends).root
    assert root is not None and (root.rule, root.ranks) == ("UNK004", (3,))
    crashed_itself = of(NativeAbort(what="gloo::EnforceNotMet"), 3, 99.9, source="rank3.log")
    root = judged(crashed_itself, left(3, status=None), lost, *ends).root
    assert root is None or root.rule != "UNK004"


def test_what_the_kernel_killed_of_others_does_not_hide_who_ended_the_run() -> None:
    asked = of(TerminationRequested(signal="SIGINT", by="user"), 0, 120.0, source="exits.jsonl")
    killed_elsewhere = of(OomKilled(by="the kernel", pid=4711), None, 110.0, source="kernel log")
    report = judged(of(StartedWith()), killed_elsewhere, asked)
    assert report.root is not None and report.root.title == "the user ended the run (Ctrl-C)"


def test_what_a_rank_issues_on_its_way_out_is_no_mismatch() -> None:
    """Lightning's SIGTERM handler broadcasts, with the number of the all-reduce that the other ranks wait in."""

    def issued(rank: int, at: float, *words: str) -> Evidence[Fact]:
        rows = tuple((number, each, each, "train.py:7") for number, each in enumerate(words, 61))
        return of(CollectivesIssued(group="0", issued=rows, steps=19), rank, at=at)

    alike = ("broadcast", "all_reduce") * 10 + ("broadcast",)
    before = [issued(0, 56.0, *alike, "all_reduce"), issued(1, 56.0, *alike)]
    after = [issued(0, 88.0, *alike, "all_reduce"), issued(1, 87.0, *alike, "broadcast")]
    stopped = of(RankStopped(phase="compute", steps=19, seconds=26.0), 1, at=81.0)
    assert [f.rule for f in judged(*before, *after).findings if f.rule == "SYN206"] == ["SYN206"]
    assert not [f for f in judged(*before, stopped, *after).findings if f.rule == "SYN206"]
    at_once = [issued(0, 56.0, *alike, "all_reduce"), issued(1, 56.0, *alike, "broadcast")]
    assert [f.rule for f in judged(*at_once, stopped, *after).findings if f.rule == "SYN206"] == ["SYN206"]
