# SPDX-License-Identifier: Apache-2.0
"""All ranks answer a question before any goes on: who says yes, has left, is silent, or means something else."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from keepstep.errors import OutOfStep
from keepstep.guard.exchange import SharedFolder
from keepstep.guard.own_rank import Identity
from keepstep.guard.same_step.agreed_call import AgreedCall, Reason
from keepstep.guard.same_step.channel import Channel
from keepstep.guard.together import rounds
from keepstep.guard.together.rounds import Rounds

LONG_S = 60.0


class Once(SharedFolder):
    """As TensorFlow's service before 2.16: a key cannot be replaced."""

    overwrites = False

    def put(self, key: str, value: str) -> None:
        assert self.get(key) is None, key
        super().put(key, value)


def channels(folder: Path, world: int, kind: type[SharedFolder] = SharedFolder) -> list[Channel]:
    return [Channel(kind(folder / "exchange"), Identity(rank=rank, world=world)) for rank in range(world)]


def at_once(calls: list[Callable[[], object]]) -> list[object]:
    """The result of each, or what it raised; all run at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.exception() or each.result() for each in [pool.submit(call) for call in calls]]


@pytest.fixture(params=["each reads all", "one counts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a small world, and in a large one."""
    if request.param == "one counts":
        monkeypatch.setattr(rounds, "MOST_EACH", 1)
    return str(request.param)


def test_a_rank_that_is_slow_to_read_still_finds_the_answer_before_the_newest(tmp_path: Path, way: str) -> None:
    asking = [Rounds(each) for each in channels(tmp_path, 2)]
    slow, go_on = asking[1], threading.Event()
    exchange = slow._channel.exchange
    get = exchange.get
    exchange.get = lambda key: get(key) if go_on.is_set() else None  # type: ignore[method-assign]

    def fast() -> list[tuple[int, ...]]:
        first = asking[0].ask("skip", True, LONG_S).yes
        asking[0].leave()
        go_on.set()
        return [first]

    if way == "one counts":
        go_on.set()
        assert at_once([fast, lambda: slow.ask("skip", False, LONG_S).yes])[0] == [(0,)]
        return
    assert at_once([fast, lambda: slow.ask("skip", False, LONG_S).yes]) == [[(0,)], (0,)]
    (after,) = at_once([lambda: slow.ask("skip", False, LONG_S)])
    assert "rank 0 left the training" in str(after)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", [SharedFolder, Once])
def test_one_rank_decides_for_all_and_the_next_question_is_a_new_one(tmp_path: Path, kind: type[SharedFolder]) -> None:
    asking = [Rounds(each) for each in channels(tmp_path, 3, kind)]
    for wanted in ({1}, set(), {0, 2}):
        calls = [
            lambda rank=rank, each=each, wanted=wanted: each.ask("skip", rank in wanted, LONG_S, f"of {rank}")
            for rank, each in enumerate(asking)
        ]
        found = at_once(calls)
        assert [set(each.yes) for each in found] == [wanted] * 3
        assert all(each.words == {rank: f"of {rank}" for rank in sorted(wanted)[:1]} for each in found)
    assert kind is Once or len(list((tmp_path / "exchange").iterdir())) == 3, "keys are replaced, not added"


@pytest.mark.usefixtures("way")
def test_ranks_that_ask_different_things_are_all_out_of_step(tmp_path: Path) -> None:
    asking = [Rounds(each) for each in channels(tmp_path, 3)]
    found = at_once([lambda n=n, each=each: each.ask(f"step {n // 2}", False, LONG_S) for n, each in enumerate(asking)])
    assert all(isinstance(each, OutOfStep) for each in found), found
    assert "(ranks 0 and 1: step 0; rank 2: step 1)" in str(found[0])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("leaver", [0, 2])
def test_a_rank_that_left_is_named_at_once(tmp_path: Path, leaver: int) -> None:
    asking = [Rounds(each) for each in channels(tmp_path, 3)]
    at_once([lambda each=each: each.ask("skip", False, LONG_S) for each in asking])
    asking[leaver].leave()
    found = at_once([lambda e=e: e.ask("skip", False, LONG_S) for n, e in enumerate(asking) if n != leaver])
    assert [f"rank {leaver} left the training" in str(each) for each in found] == [True, True], found


@pytest.mark.usefixtures("way")
def test_ranks_that_all_left_can_meet_again(tmp_path: Path) -> None:
    """A script may destroy its process group, and form another one on the same store."""
    asking = [Rounds(each) for each in channels(tmp_path, 2)]
    for each in asking:
        each.leave()
    found = at_once([lambda each=each: each.ask("skip", True, LONG_S) for each in asking])
    assert [each.yes for each in found] == [(0, 1), (0, 1)], found


@pytest.mark.usefixtures("way")
def test_a_silent_rank_is_named_on_every_rank(tmp_path: Path) -> None:
    asking = [Rounds(each) for each in channels(tmp_path, 3)]
    found = at_once([lambda: asking[0].ask("skip", False, 1.5), lambda: asking[1].ask("skip", False, 12.0)])
    assert ["no answer from rank 2" in str(each) for each in found] == [True, True], found
    (alone,) = at_once([lambda: Rounds(channels(tmp_path / "other", 3)[1]).ask("skip", False, 0.1)])
    assert "no answer from rank" in str(alone)


def test_an_exchange_that_is_gone_is_out_of_step_too() -> None:
    class Gone(SharedFolder):
        def __init__(self) -> None: ...

        def put(self, key: str, value: str) -> None:
            raise ConnectionError("the store is gone")

    found = Rounds(Channel(Gone(), Identity(rank=1, world=2)))
    with pytest.raises(OutOfStep, match=r"cannot ask each other any more .*the store is gone"):
        found.ask("skip", False, LONG_S)


def test_a_forked_child_does_not_say_that_its_rank_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Rounds(channels(tmp_path, 2)[1])
    monkeypatch.setattr("os.getpid", lambda: -1)
    asking.leave()
    assert not list((tmp_path / "exchange").iterdir())


# --- the call in which all ranks get True


def test_all_ranks_stop_at_the_same_call_however_far_each_is(tmp_path: Path) -> None:
    """Each rank goes on by itself; rank 1 learns of a reason at its 20th call."""
    calls = [AgreedCall("stop", lambda each=each: each) for each in channels(tmp_path, 3)]
    over = threading.Event()

    def guard_threads() -> None:
        while not over.wait(0.002):
            for each in calls:
                each.look()

    def train(rank: int) -> int:
        until = time.monotonic() + LONG_S
        for number in itertools.count(1):
            if rank == 1 and number == 20:
                calls[1].ask_all(Reason(1, "SIGTERM", 1))
            if calls[rank].is_due(LONG_S):
                return number
            assert time.monotonic() < until, "it never stopped"
            time.sleep(0.0001)  # a step: the threads of the guards run meanwhile
        raise AssertionError

    watching = threading.Thread(target=guard_threads)
    watching.start()
    try:
        found = at_once([lambda rank=rank: train(rank) for rank in range(3)])
    finally:
        over.set()
        watching.join()
    assert len(set(found)) == 1, found
    assert calls[0].is_due(LONG_S), "it stays True"


def test_a_second_reason_counts_once_the_first_was_acted_on(tmp_path: Path) -> None:
    calls = [AgreedCall("save", lambda each=each: each) for each in channels(tmp_path, 2)]
    for number, answers in ((1, [False, True, False]), (1, [False, False, False]), (2, [False, True, False])):
        seen = []
        for turn in range(3):
            if turn == 1:
                calls[0].ask_all(Reason(number, "a request"))
            for each in calls * 3:
                each.look()
            due = [each.is_due(LONG_S) for each in calls]
            assert due[0] == due[1]
            seen.append(due[0])
            for each in calls if due[0] else ():
                each.done()
        assert seen == answers


def test_a_rank_whose_guard_does_not_answer_ends_the_wait(tmp_path: Path) -> None:
    call = AgreedCall("stop", lambda: channels(tmp_path, 2)[0])
    assert not call.is_due(LONG_S)
    call.ask_all(Reason(1, "SIGTERM"))
    with pytest.raises(OutOfStep, match="SIGTERM: not all ranks could agree"):
        call.is_due(0.05)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_rank_that_has_finished_is_not_waited_for_and_nobody_acts_without_it(tmp_path: Path, gone: int) -> None:
    calls = [AgreedCall("should_save", lambda each=each: each) for each in channels(tmp_path, 3)]
    for rank, call in enumerate(calls):
        assert [call.is_due(0.0) for _ in range(5 if rank == gone else 4)] == [False] * (5 if rank == gone else 4)
    calls[gone].leave()
    staying = [call for rank, call in enumerate(calls) if rank != gone]
    staying[0].ask_all(Reason(7, "keepstep save"))
    staying[0].look()  # tells the other one
    staying[1].look()
    assert at_once([lambda call=call: call.is_due(LONG_S) for call in staying]) == [False, False]
