# SPDX-License-Identifier: Apache-2.0
"""How guards compare the numbers of replicas, without a framework: two sessions over one folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from keepstep.errors import OutOfStep
from keepstep.guard.agree import fingerprints
from keepstep.guard.agree.fingerprints import BASELINE, VARIABLE, Fingerprints, Interval, Look
from keepstep.guard.exchange import SharedFolder, key_of
from keepstep.guard.own_rank import Identity
from keepstep.signals.two_replicas import StepsAgain

NAMES = ("a", "b", "c", "d")


class Rank:
    """The session of one rank, as far as fingerprints need it: its words go through a real folder."""

    def __init__(self, rank: int, folder: Path, strict: bool = False, world: int = 3, **env: str) -> None:
        self.who = Identity(rank=rank, world=world)
        self.exchange = SharedFolder(folder)
        self.strict, self.steps, self.usual_step_s = strict, 0, 1.0
        self.again: Any = None
        self.pulse = self.ledger = self
        self.notes: list[dict[str, Any]] = []
        self.suspects: list[int] = []
        self.left_out: list[str] = []
        self.fingerprints = Fingerprints(self, env)

    def every(self, period: float, part: str, call: Callable[[], None]) -> None:
        """Its thread: the tests call ``turn`` themselves."""

    def suspect(self, after_step: int, why: str) -> None:
        self.suspects.append(after_step)

    def note(self, fact: str, fields: dict[str, Any], quote: str) -> None:
        self.notes.append(fields)

    def say(self, text: str, *, always: bool = False) -> None: ...
    def flush(self) -> None: ...

    def uncovered(self, part: str, why: str) -> None:
        self.left_out.append(why)

    def heard_from(self, topic: str, rank: int) -> str | None:
        return self.exchange.get(key_of(self.who, topic, rank))

    def look(
        self, number: int, sums: Sequence[int], exchanged: int | None = None, promised: bool = False, lost: int = 0
    ) -> None:
        """``lost``: of so many tensors a value is not finite."""
        at = number if exchanged is None else exchanged
        self.fingerprints.add(
            Look(
                subject="model",
                ranks=tuple(range(self.who.world or 0)),
                again=self.again,
                number=number,
                step=number,
                exchanged=at,
                names=NAMES,
                read=lambda: [(each, each, int(place < lost)) for place, each in enumerate(sums)],
                promised=promised,
            )
        )


@pytest.fixture
def all_ranks(tmp_path: Path) -> list[Rank]:
    return [Rank(rank, tmp_path / "words") for rank in range(3)]


GOOD = (1, 2, 3, 4)


def looks(ranks: Sequence[Rank], number: int, *odd: tuple[int, Sequence[int]], exchanged: int | None = None) -> None:
    for rank in reversed(ranks):
        rank.look(number, dict(odd).get(rank.who.rank or 0, GOOD), exchanged)
        rank.fingerprints.turn()
    for rank in ranks:
        rank.fingerprints.turn()


def lose(ranks: Sequence[Rank], number: int, sums: Sequence[int], tensors: int) -> None:
    """A look at replicas that are the same on all ranks, and not finite in some tensors."""
    for rank in ranks:
        rank.look(number, sums, lost=tensors)
    for rank in reversed(ranks):
        rank.fingerprints.turn()
    for rank in ranks:
        rank.fingerprints.turn()


def agree(ranks: Sequence[Rank]) -> None:
    for number in range(1, BASELINE + 1):
        looks(ranks, 8 * number)


def test_the_odd_rank_and_its_tensor_are_named_and_all_ranks_suspect_what_they_save(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    looks(all_ranks, 24, (2, (1, 2, 7, 4)))
    (found,) = all_ranks[0].notes
    assert (found["ranks"], found["tensor"], found["step"], found["agreed"]) == ((2,), "c", 24, 16)
    assert found["majority"] and found["tensors"] == 1 and found["of"] == 4
    assert [rank.suspects for rank in all_ranks] == [[16], [16], [16]]
    looks(all_ranks, 32, (2, (1, 2, 9, 4)))
    assert len(all_ranks[0].notes) == 1  # the same tensor differs for ever
    looks(all_ranks, 40, (2, (5, 2, 9, 4)))
    assert [each["tensor"] for each in all_ranks[0].notes] == ["c", "a"]


def test_what_differs_from_the_start_is_never_told(all_ranks: list[Rank]) -> None:
    for number in range(1, 6):
        looks(all_ranks, 8 * number, (1, (1, 2, 3, 100 + number)))
    assert not all_ranks[0].notes and all_ranks[0].left_out
    looks(all_ranks, 48, (1, (1, 0, 3, 100)))
    assert [each["tensor"] for each in all_ranks[0].notes] == ["b"]


def test_ranks_at_different_places_are_not_compared(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    all_ranks[0].look(24, GOOD, 24)
    all_ranks[1].look(24, GOOD, 23)
    all_ranks[2].look(24, (9, 9, 9, 9), 23)
    for rank in reversed(all_ranks):
        rank.fingerprints.turn()
    assert not all_ranks[0].notes


def test_ranks_that_stop_to_exchange_train_models_of_their_own(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    looks(all_ranks, 24, (1, (5, 6, 7, 8)), (2, (6, 7, 8, 9)), exchanged=18)
    assert not all_ranks[0].notes
    assert "exchange less" in all_ranks[0].left_out[0]


def test_a_rank_that_takes_other_steps_differs_in_everything(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    looks(all_ranks, 24, (1, (5, 6, 7, 8)))
    assert [each["tensors"] for each in all_ranks[0].notes] == [4]


def test_a_rank_that_looks_less_often_is_compared_at_common_steps(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    all_ranks[0].look(24, GOOD)
    all_ranks[2].look(24, GOOD)
    looks(all_ranks, 32, (2, (1, 7, 3, 4)))
    assert [(each["step"], each["ranks"]) for each in all_ranks[0].notes] == [(32, (2,))]


def test_strict_stops_every_rank_at_its_next_look(tmp_path: Path) -> None:
    ranks = [Rank(rank, tmp_path / "words", strict=True) for rank in range(3)]
    agree(ranks)
    looks(ranks, 24, (2, (1, 2, 7, 4)))
    for rank in ranks:
        with pytest.raises(OutOfStep, match="rank 2 holds other numbers"):
            rank.look(32, GOOD)


def test_replicas_in_one_process_are_compared_by_device(tmp_path: Path) -> None:
    rank = Rank(0, tmp_path / "words")
    for step in (1, 2, 3):
        odd = (1, 3) if step == 3 else (1, 2)
        replicas = {"GPU:0": [(1, 2)], "GPU:1": [odd], "GPU:2": [(1, 2)]}
        rank.fingerprints.add_inside("variables", step, ["kernel"], replicas)
    (found,) = rank.notes
    assert (found["devices"], found["tensor"], found["step"], found["agreed"]) == (("GPU:1",), "kernel", 3, 2)


@contextlib.contextmanager
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [0.0]
    monkeypatch.setattr(fingerprints.time, "monotonic", lambda: now[0])
    yield now


def test_the_interval_follows_from_the_cost_and_is_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    with clock(monkeypatch) as now:
        interval = Interval(None)
        number = 0
        for cost_s in (0.05, 0.05):  # a twentieth of a second, in steps of a tenth: one in 500 at most
            while not interval.affords(number, cost_s):
                number, now[0] = number + 1, now[0] + 0.1
            interval.looked(number, cost_s)
        every = interval.next - number
        assert every == 512 and interval.next % every == 0


def test_the_user_may_ask_for_an_interval_or_for_none(tmp_path: Path) -> None:
    assert Fingerprints(Rank(0, tmp_path), {VARIABLE: "off"}).off
    assert Fingerprints(Rank(0, tmp_path), {VARIABLE: "50"}).asked == 50
    interval = Interval(50)
    assert interval.next == 50 and interval.affords(50, 1e9)
    interval.looked(50, 1.0)
    assert interval.next == 100


def test_where_one_replica_differs_from_the_start_the_others_are_still_compared(all_ranks: list[Rank]) -> None:
    rank = all_ranks[0]
    same = {f"cpu:{place}": [(1, 1)] for place in range(5)}
    for step in range(1, BASELINE + 2):
        rank.fingerprints.add_inside("model", step, ["w"], same | {"cpu:4": [(7, step)]})
    assert not rank.notes and rank.left_out
    for step in (8, 9):
        rank.fingerprints.add_inside("model", step, ["w"], same | {"cpu:4": [(7, step)], "cpu:1": [(8, step)]})
    (found,) = rank.notes
    assert (found["devices"], found["step"], found["majority"]) == (("cpu:1",), 8, True)


def test_of_looks_that_come_faster_than_they_are_compared_all_ranks_keep_the_same(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    for rank, last in zip(reversed(all_ranks), (99, 96, 101), strict=True):  # each thread has its turn at another time
        for number in range(17, last + 1):
            rank.look(number, (1, 2, 7, 4) if rank.who.rank == 1 and number > 60 else GOOD)
        rank.fingerprints.turn()
    all_ranks[0].fingerprints.turn()
    assert [(each["step"], each["ranks"]) for each in all_ranks[0].notes] == [(64, (1,))]
    for number in range(104, 300, 4):
        looks(all_ranks, number, (2, (9, 2, 3, 4) if number > 200 else GOOD))
    assert [(each["step"], each["ranks"]) for each in all_ranks[0].notes[1:]] == [(204, (2,))]


def test_where_the_framework_promises_it_one_agreement_is_enough_but_not_if_most_differ(tmp_path: Path) -> None:
    for differing, told in (((1, 2, 3, 9), ["d"]), ((1, 9, 9, 9), [])):
        ranks = [Rank(rank, tmp_path / str(len(told))) for rank in range(3)]
        for rank in reversed(ranks):
            for number, sums in ((0, GOOD), (4, differing if rank.who.rank == 2 else GOOD)):
                rank.look(number, sums, promised=True)
                rank.fingerprints.turn()
        ranks[0].fingerprints.turn()
        assert [each["tensor"] for each in ranks[0].notes] == told


def test_numbers_that_became_nan_on_all_ranks_alike_are_told_once_and_what_is_saved_since_is_suspect(
    all_ranks: list[Rank],
) -> None:
    agree(all_ranks)
    for number in (24, 32):
        lose(all_ranks, number, (9, 9, 9, 9), 4)
    (note,) = all_ranks[0].notes
    assert (note["tensor"], note["tensors"], note["step"], note["finite_at"]) == ("a", 4, 24, 16)
    assert [rank.suspects for rank in all_ranks] == [[16]] * 3


def test_gradients_that_overflow_for_a_step_are_no_weights_that_are_lost(all_ranks: list[Rank]) -> None:
    agree(all_ranks)
    for number, tensors in ((24, 2), (32, 0), (40, 2)):  # half of what the step returns
        lose(all_ranks, number, (number, 2, 3, 4), tensors)
    assert not any(rank.notes or rank.suspects for rank in all_ranks)


def test_what_is_not_finite_from_the_start_is_so_by_design(all_ranks: list[Rank]) -> None:
    for number in (8, 16, 24):
        lose(all_ranks, number, (number, 2, 3, 4), 4)
    assert not any(rank.notes for rank in all_ranks)


def test_replicas_of_one_process_that_became_nan_together_are_told(tmp_path: Path) -> None:
    rank = Rank(0, tmp_path)
    for step, lost in ((8, 0), (16, 0), (24, 1)):
        rank.fingerprints.add_inside("model", step, ["w"], {f"cpu:{at}": [(step, step, lost)] for at in range(3)})
    (note,) = rank.notes
    assert (note["replicas"], note["step"], note["finite_at"]) == (3, 24, 16)
    assert rank.suspects == [16]


def two_that_differ(folder: Path, again: Any, strict: bool = False) -> list[Rank]:
    ranks = [Rank(rank, folder, strict=strict, world=2) for rank in range(2)]
    for rank in ranks:
        rank.again = again(rank.who.rank) if again is not None else None
    agree(ranks)
    for number, odd in ((24, (1, 2, 7, 4)), (32, (1, 9, 7, 4))):  # the other one hears of both at once
        ranks[1].look(number, odd)
        ranks[1].fingerprints.turn()
        ranks[0].look(number, GOOD)
        ranks[0].fingerprints.turn()
    for rank in (ranks[1], ranks[0], ranks[1], ranks[0]):
        rank.fingerprints.turn()
    return ranks


def test_of_two_replicas_the_one_whose_repeat_is_odd_is_named(tmp_path: Path) -> None:
    asked = []

    def again(rank: int) -> Any:
        def repeat(names: Sequence[str], start: int, answer: Any) -> None:
            asked.append((rank, tuple(names), start))
            answer(lambda: StepsAgain(steps=4, unlike=4 if rank == 1 else 0))

        return repeat

    ranks = two_that_differ(tmp_path, again)
    odd, _, which = ranks[0].notes
    assert (odd["ranks"], odd["majority"], odd["tensor"]) == ((0, 1), False, "c")
    assert (which["ranks"], which["of"], which["tensor"], which["sure"]) == ((1,), (0, 1), "c", True)
    assert sorted(asked) == [(0, ("c",), asked[0][2]), (1, ("c",), asked[0][2])] and asked[0][2] >= 28
    looks(ranks, 48, (1, (9, 2, 7, 4)))
    assert len(asked) == 2  # asked once for each model


def test_of_two_replicas_whose_steps_cannot_be_repeated_none_is_named(tmp_path: Path) -> None:
    (*_, which) = two_that_differ(tmp_path, None)[0].notes
    assert which["ranks"] == () and "cannot be repeated" in which["why"]


def test_a_replica_that_never_answers_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clock(monkeypatch) as now:
        ranks = two_that_differ(tmp_path, lambda rank: lambda names, start, answer: None, strict=True)
        ranks[0].look(40, GOOD)  # strict stops when it is known which one is wrong
        assert len(ranks[0].notes) == 2
        now[0] += 500.0
        ranks[0].fingerprints.turn()
        assert "no answer in time" in ranks[0].notes[2]["why"]
        with pytest.raises(OutOfStep):
            ranks[1].look(48, GOOD)
