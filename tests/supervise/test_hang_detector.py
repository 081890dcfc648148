# SPDX-License-Identifier: Apache-2.0
"""Who has stopped, as a pure judgement: made-up ranks in made-up time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.signals.blackbox import BoxPhase
from keepstep.supervise.watch.hang_detector import Sign, Stop, Suspicion, Watch, held_up_by

# not imported: a change of these times must be noticed
LEAST_S, TELLS_S = 1.0, 3.0
BETWEEN_S, TELLS_BETWEEN_S = 3.0, 15.0
IDLE_S, GIVEN_IDLE_S = 5.0, 300.0
TICK = 0.25


@dataclass
class Rank:
    """A rank that is told what to do."""

    number: int | None
    step_s: float = 0.1
    phase: BoxPhase | None = BoxPhase.COMPUTE
    steps: int = 0
    progress: float = 0.0
    cpu_s: float = 0.0
    printed: int = 0
    works: bool = True
    moves: bool = True
    frozen: bool = False
    between: bool = False
    _done: float = 0.0

    def sign(self, at: float) -> Sign:
        if self.moves:
            self.steps += int((at - self._done) / self.step_s)
            self._done += int((at - self._done) / self.step_s) * self.step_s
            self.progress = self._done if self.phase is BoxPhase.COMPUTE else max(self.progress, self._done)
        else:
            self._done = at
        self.cpu_s += TICK * (0.9 if self.works else 0.0)
        guarded = self.phase is not None
        return Sign(
            pid=100 + (self.number or 0),
            rank=self.number,
            at=at,
            phase=self.phase,
            steps=self.steps if guarded else 0,
            progress=self.progress if guarded else None,
            usual_s=self.step_s if guarded and self.steps > 2 else None,
            cpu_s=self.cpu_s,
            printed=self.printed,
            frozen=self.frozen,
            between=self.between,
        )


@dataclass
class World:
    ranks: list[Rank]
    watch: Watch = field(default_factory=Watch)
    at: float = 0.0

    def go(self, seconds: float) -> Suspicion | None:
        """Let time pass; the first suspicion, if there is one."""
        end = self.at + seconds
        while self.at < end:
            self.at += TICK
            suspicion = self.watch.see([rank.sign(self.at) for rank in self.ranks], self.at)
            if suspicion is not None:
                return suspicion
        return None

    def halt(self, *, works: bool = False) -> float:
        for rank in self.ranks:
            rank.moves, rank.works = False, works
        return self.at


def two() -> World:
    world = World([Rank(0), Rank(1)])
    assert world.go(20) is None
    return world


@pytest.mark.parametrize("step_s", [0.01, 0.1, 1.0, 20.0])
def test_silence_of_stepping_ranks_is_suspected_after_a_few_usual_steps(step_s: float) -> None:
    world = World([Rank(0, step_s), Rank(1, step_s)])
    assert world.go(10 * step_s + 10) is None
    since = world.halt()
    suspicion = world.go(1000)
    assert suspicion is not None and suspicion.kind == "step"
    assert world.at - since <= max(LEAST_S, 3 * step_s) + 2 * TICK
    stop = world.watch.looked(suspicion, still=True, at=world.at)
    assert stop is not None and stop.proven


@pytest.mark.parametrize("crowding", [1.0, 4.0])
def test_where_many_want_each_core_an_unproven_silence_is_told_later(crowding: float) -> None:
    world = two()
    world.watch.crowding = crowding
    since = world.halt()
    suspicion = world.go(1000)
    assert suspicion is not None
    told = next(at for at in range(1000) if world.watch.judge(suspicion, still=True, sure=False, at=since + at))
    assert crowding * TELLS_S <= told <= crowding * TELLS_S + 1
    proven = world.watch.looked(suspicion, still=True, at=world.at)
    assert proven is not None and proven.proven


def test_ranks_that_were_found_at_work_are_looked_at_less_and_less() -> None:
    world = two()
    world.halt(works=True)
    looks = 0
    end = world.at + 600
    while world.at < end:
        suspicion = world.go(end - world.at)
        if suspicion is not None:
            looks += 1
            assert world.watch.looked(suspicion, still=False, at=world.at) is None
    assert 5 <= looks <= 12


@pytest.mark.parametrize("phase", [BoxPhase.START, BoxPhase.COMPILE, BoxPhase.CHECKPOINT, BoxPhase.EVALUATION])
def test_a_pause_in_which_someone_works_is_left_in_peace(phase: BoxPhase) -> None:
    world = two()
    for rank in world.ranks:
        rank.moves = False
    world.ranks[0].phase, world.ranks[1].works = phase, False
    assert world.go(55) is None


@pytest.mark.parametrize("prints", [False, True])
def test_ranks_without_steps_that_only_use_the_processor_are_looked_at_after_a_minute(prints: bool) -> None:
    """Threads that carry messages poll: that is no progress. What prints or moves bytes is left in peace."""
    world = World([Rank(0, phase=BoxPhase.START, moves=False), Rank(1, phase=BoxPhase.START, moves=False)])
    suspicion = None
    for _ in range(40):
        world.ranks[0].printed += prints
        suspicion = suspicion or world.go(2)
    if prints:
        assert suspicion is None
        return
    assert suspicion is not None and suspicion.kind == "polls" and 60 <= suspicion.quiet_s <= 62
    assert world.watch.judge(suspicion, still=False, at=world.at) is None
    stop = world.watch.looked(suspicion, still=True, sure=False, at=world.at)
    assert stop is not None and not stop.proven


@pytest.mark.parametrize("phase", [BoxPhase.COMPILE, BoxPhase.CHECKPOINT, BoxPhase.EVALUATION])
def test_an_idle_pause_is_looked_at_and_never_proven_at_once(phase: BoxPhase) -> None:
    world = two()
    since = world.halt()
    world.ranks[1].phase = phase
    suspicion = world.go(60)
    assert suspicion is not None and suspicion.kind == phase.name.lower()
    assert IDLE_S <= world.at - since <= IDLE_S + 3 * TICK
    assert [sign.rank for sign in suspicion.held_up] == [1]
    stop = world.watch.looked(suspicion, still=True, at=world.at)
    assert stop is not None and not stop.proven


def test_after_a_save_or_an_epoch_the_next_step_may_begin_late_and_only_a_proof_is_told_early() -> None:
    world = two()
    since = world.halt()
    world.ranks[1].between = True
    suspicion = world.go(60)
    assert suspicion is not None and suspicion.kind == "between"
    assert BETWEEN_S <= world.at - since <= BETWEEN_S + 3 * TICK
    proof = world.watch.looked(suspicion, still=True, at=world.at)
    assert proof is not None and proof.proven
    assert world.watch.looked(suspicion, still=None, at=world.at) is None
    later = world.watch.looked(suspicion, still=None, at=since + TELLS_BETWEEN_S + TICK)
    assert later is not None and not later.proven


def test_the_first_steps_may_take_long() -> None:
    world = World([Rank(0, step_s=40.0), Rank(1, step_s=40.0)])
    assert world.go(59) is None


@pytest.mark.parametrize(("steps", "kind"), [(1, "start"), (2, "step")])
def test_silence_in_the_first_steps_counts_only_once_the_ranks_are_idle(steps: int, kind: str) -> None:
    """A second attempt knows the usual step from the first one, and still has to compile."""
    watch = Watch()

    def silent(at: float, cpu_s: float) -> Suspicion | None:
        ranks = [
            Sign(pid=n, rank=n, at=at, phase=BoxPhase.COMPUTE, steps=steps, progress=0.0, usual_s=0.1, cpu_s=cpu_s)
            for n in range(2)
        ]
        return watch.see(ranks, at)

    at_work = [silent(at, cpu_s=at) for at in (0.0, 1.0, 2.0, 3.0)]
    assert [each is None for each in at_work] == ([True] * 4 if steps < 2 else [True, False, False, False])
    idle = [found for at in (4.0, 5.0, 6.0, 7.0, 8.0) if (found := silent(at, cpu_s=3.0)) is not None]
    assert {each.kind for each in idle} == {kind}


def test_a_pause_that_ended_by_itself_is_forgiven_the_next_time() -> None:
    world = two()
    since = world.halt()
    for _ in range(3):
        suspicion = world.go(60)
        assert suspicion is not None
        assert world.watch.looked(suspicion, still=True, at=world.at)
    pause = world.at - since
    for rank in world.ranks:
        rank.moves = rank.works = True
    assert world.go(10) is None
    assert world.watch.stopped is None
    since = world.halt()
    suspicion = world.go(60)
    assert suspicion is not None and world.at - since > 1.4 * pause > 6


def test_a_loop_that_never_ends_is_only_suspected() -> None:
    world = two()
    world.halt(works=True)
    world.ranks[0].phase = BoxPhase.EVALUATION
    assert world.go(500) is None  # an evaluation may take that long
    suspicion = world.go(200)
    assert suspicion is not None and suspicion.kind == "busy"
    stop = world.watch.looked(suspicion, still=True, at=world.at)
    assert stop is not None and not stop.proven


def test_without_a_guard_idleness_is_suspected_and_proven_by_a_second_look() -> None:
    world = World([Rank(0, phase=None), Rank(1, phase=None)])
    assert world.go(30) is None
    world.halt()
    stops: list[Stop] = []
    while not stops or not stops[-1].proven:
        suspicion = world.go(200)
        assert suspicion is not None and suspicion.kind == "unguarded"
        stop = world.watch.looked(suspicion, still=True, at=world.at)
        assert stop is not None
        stops.append(stop)
    assert len(stops) > 1 and stops[-1].quiet_s >= 20


def test_one_rank_that_falls_silent_alone_is_found() -> None:
    world = two()
    world.ranks[1].moves = False
    suspicion = world.go(120)
    assert suspicion is not None and suspicion.kind == "alone"
    assert [sign.rank for sign in suspicion.held_up] == [1]


def test_what_moved_while_it_was_looked_at_has_not_stopped() -> None:
    world = two()
    world.halt()
    suspicion = world.go(60)
    assert suspicion is not None
    now = world.at + 4
    signs = [rank.sign(now) for rank in world.ranks]
    assert world.watch.looked(suspicion, still=True, at=now, signs=signs[:1]) is None, "one has ended"
    world.ranks[0].progress += 5
    signs = [rank.sign(now) for rank in world.ranks]
    assert world.watch.looked(suspicion, still=None, at=now, signs=signs) is None


def test_who_is_held_up() -> None:
    def sign(rank: int, **more: object) -> Sign:
        return Sign(pid=rank, rank=rank, at=1.0, phase=more.pop("phase", BoxPhase.COMPUTE), **more)  # type: ignore[arg-type]

    assert [s.rank for s in held_up_by([sign(0, steps=5), sign(1, steps=4), sign(2, steps=5)])] == [1]
    assert [s.rank for s in held_up_by([sign(0, steps=5), sign(1, steps=5, phase=BoxPhase.INPUT)])] == [1]
    assert [s.rank for s in held_up_by([sign(0, collective=9), sign(1, collective=8)])] == [1]
    assert [s.rank for s in held_up_by([sign(0, steps=1, frozen=True), sign(1, steps=0)])] == [0]
    assert [s.rank for s in held_up_by([sign(0), sign(1)])] == [0, 1]


def test_the_users_own_limit_counts() -> None:
    world = World([Rank(0), Rank(1)], Watch(least_s=30.0))
    assert world.go(20) is None
    world.halt()
    assert world.go(29) is None
    assert world.go(5) is not None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(BoxPhase)), st.floats(0.5, 50), st.booleans()), max_size=8))
def test_a_working_run_is_never_called_stopped(pauses: list[tuple[BoxPhase, float, bool]]) -> None:
    """Whatever pauses a run makes: as long as looks see it at work, nothing is said."""
    world = two()
    for phase, seconds, both in pauses:
        for rank in world.ranks:
            rank.moves = False
            rank.phase = phase if both or rank.number == 0 else BoxPhase.COMPUTE
        end = world.at + seconds
        while world.at < end:
            suspicion = world.go(end - world.at)
            if suspicion is not None:
                assert world.watch.looked(suspicion, still=False, at=world.at) is None
        for rank in world.ranks:
            rank.moves, rank.phase = True, BoxPhase.COMPUTE
        world.go(3)
        assert world.watch.stopped is None


def test_a_wait_for_what_may_come_late_is_never_proof() -> None:
    world = two()
    world.halt()
    suspicion = world.go(60)
    assert suspicion is not None
    assert world.watch.looked(suspicion, still=True, sure=False, at=world.at) is None, "too early for a word"
    for sure in (False, True):
        stop = world.watch.looked(suspicion, still=True, sure=sure, at=world.at + 5.0)
        assert stop is not None and stop.proven is sure


def test_a_command_in_which_no_rank_has_shown_itself_may_wait_for_minutes() -> None:
    world = World([Rank(None, phase=None)])
    assert world.go(30) is None
    since = world.halt()
    suspicion = world.go(400)
    assert suspicion is not None and suspicion.kind == "unguarded"
    assert GIVEN_IDLE_S <= world.at - since <= GIVEN_IDLE_S + 3 * TICK


def test_where_a_rank_has_left_by_itself_the_others_may_be_on_their_way_out() -> None:
    world = two()
    world.go(10.0)
    world.ranks[0].phase = BoxPhase.END
    world.go(0.5)
    del world.ranks[0]
    world.halt()
    suspicion = world.go(30.0)
    assert suspicion is not None
    assert world.watch.judge(suspicion, still=True, at=suspicion.at + TELLS_S, sure=False) is None
    assert world.watch.judge(suspicion, still=True, at=suspicion.at + TELLS_BETWEEN_S, sure=False) is not None
    assert world.watch.judge(suspicion, still=True, at=suspicion.at, sure=True) is not None, (
        "what is proven is told at once"
    )


def test_a_rank_without_a_guard_among_others_is_looked_at_once_all_are_idle() -> None:
    world = World([Rank(0), Rank(1, phase=None)])
    assert world.go(20) is None
    since = world.halt()
    suspicion = world.go(60)
    assert suspicion is not None and suspicion.kind == "start"
    assert IDLE_S <= world.at - since <= IDLE_S + 2.0
    assert [sign.rank for sign in suspicion.held_up] == [1]


def test_of_one_that_is_silent_alone_only_its_own_progress_counts() -> None:
    world = two()
    world.ranks[1].moves = False
    since = world.at
    suspicion = world.go(120)
    assert suspicion is not None and 30.0 <= world.at - since <= 31.0
    world.go(2)
    stop = world.watch.judge(suspicion, still=True, at=world.at, signs=[rank.sign(world.at) for rank in world.ranks])
    assert stop is not None and stop.proven, "the others go on"
    world.ranks[1].progress += 5
    signs = [rank.sign(world.at) for rank in world.ranks]
    assert world.watch.judge(suspicion, still=True, at=world.at, signs=signs) is None


def test_the_words_of_a_stop_compare_it_with_the_usual_step() -> None:
    world = two()
    world.halt()
    suspicion = world.go(60)
    assert suspicion is not None and suspicion.usual_s == 0.1
    stop = Stop(suspicion=suspicion, proven=True, at=suspicion.at - suspicion.quiet_s + 12.0)
    assert stop.words == "no progress for 12.0 s, 120 times the usual step"


@pytest.mark.parametrize(("lively", "limit"), [(2, LEAST_S), (3, 2.0)])
def test_ranks_that_were_found_at_work_three_times_may_pause_for_two_seconds(lively: int, limit: float) -> None:
    world = two()
    for _ in range(lively):
        world.halt()
        suspicion = world.go(60)
        assert suspicion is not None
        assert world.watch.looked(suspicion, still=False, at=world.at) is None
        for rank in world.ranks:
            rank.moves = True
        assert world.go(2) is None
    since = world.halt()
    assert world.go(60) is not None
    assert limit <= world.at - since <= limit + 2 * TICK


@pytest.mark.parametrize(
    ("phases", "idle_s", "suspected"),
    [
        ((BoxPhase.END, BoxPhase.END), 10.0, False),  # Python joins threads: that is no hang
        ((BoxPhase.END, BoxPhase.END), 40.0, True),
        ((BoxPhase.END, BoxPhase.COMPUTE), 10.0, True),  # one has left, and the other waits for it
    ],
)
def test_scripts_that_are_over_may_take_a_while_to_exit(
    phases: tuple[BoxPhase, ...], idle_s: float, suspected: bool
) -> None:
    watch = Watch()
    found = None
    for at in (100.0, 100.0 + idle_s):
        signs = [
            Sign(pid=pid, rank=pid, at=at, phase=phase, steps=60, progress=100.0, usual_s=0.02)
            for pid, phase in enumerate(phases, 1)
        ]
        found = watch.see(signs, at)
    assert (found is not None) is suspected
