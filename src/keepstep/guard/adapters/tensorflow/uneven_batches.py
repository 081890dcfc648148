# SPDX-License-Identifier: Apache-2.0
"""Which rank has fewer batches, left early or is in another program: found by the guards' threads, which talk.

Ranks of a multi-worker strategy call their shared programs in one order. A rank that is about to run a new one states
its place in that order; a rank that is already in a known program at that place answers, and both know.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

from keepstep.guard.adapters.tensorflow.counts import Mark
from keepstep.guard.adapters.tensorflow.tensorflow_state import CALL, ITERATOR, NEXT, TensorFlowState
from keepstep.guard.exchange import key_of
from keepstep.signals.blackbox import RecordKind
from keepstep.signals.contracts import REMARK, UNKNOWN, Subject

LOOK_S = 0.5
STUCK_S = 1.0
"""In a shared program for longer than this, a rank looks whether the others are in it too."""
PEERS_AT_ONCE = 8
_EPOCH = int(RecordKind.EPOCH)


def attach(state: TensorFlowState) -> None:
    from keepstep.guard.adapters.tensorflow.pace import TensorFlowPace

    pace = TensorFlowPace(state)
    state.session.pulse.every(LOOK_S, "shares of the data", lambda: look(state))
    state.session.pulse.every(LOOK_S, "pace", lambda: keep_pace(state, pace))


def first_batch(state: TensorFlowState, mark: Mark, shared: bool) -> None:
    """The first batch of an iterator is trained on. Ranks that train on it together compare how many there are."""
    shares = state.shares
    if shared and shares.steps == 0 and "length" not in shares.told:
        compare_lengths(state, mark.batches)


def compare_lengths(state: TensorFlowState, batches: int | None) -> None:
    """How many batches an epoch will have, if that is known; -1: it has no end."""
    state.shares.told.add("length")
    length = {None: UNKNOWN, -1: "without end"}.get(batches, str(batches))
    state.session.write(_EPOCH, 0, -1 if batches is None else batches)
    state.session.compare(Subject.BATCHES, {"batches of the dataset": length})


def iterator_ended(state: TensorFlowState, mark: Mark | None) -> None:
    """A dataset is over; where it was trained on, so is the epoch."""
    if mark is not None and mark.trained > 0:
        epoch_ended(state)


def epoch_ended(state: TensorFlowState) -> None:
    state.shares.end_epoch()
    state.epochs += 1
    state.session.write(_EPOCH, state.epochs, -1)


def left_by(state: TensorFlowState, shared: bool, error: BaseException) -> None:
    """A program ended with an exception: the end of the data, or a peer that is gone."""
    with contextlib.suppress(Exception):
        if type(error).__name__ in ("OutOfRangeError", "StopIteration"):
            epoch_ended(state)
        elif shared and not isinstance(error, KeyboardInterrupt):
            _look_for_leavers(state)


def look(state: TensorFlowState) -> None:
    """From the guard's thread."""
    if state.world < 2 or state.coordinated or state.session.exchange is None:
        return
    try:
        _tell_epochs(state)
        _hear_epochs(state)
        entered = state.entered_at
        if entered and time.monotonic() - entered > STUCK_S:
            _look_for_others(state)
            _look_for_leavers(state)
    except Exception as error:  # the service ends with the first rank that leaves: nothing to report
        state.session.uncovered("shares of the data", f"{type(error).__name__}: {str(error)[:200]}")


def keep_pace(state: TensorFlowState, pace: Any) -> None:
    """From the guard's thread."""
    if state.world < 2 or state.coordinated or state.session.exchange is None:
        return
    try:
        pace.turn()
    except Exception as error:
        state.session.uncovered("pace", f"{type(error).__name__}: {str(error)[:200]}")


def last_words(state: TensorFlowState) -> None:
    """This rank ends in good order, after this many steps."""
    failed = getattr(sys, "last_value", None) is not None
    if state.world < 2 or state.coordinated or failed or state.session.exchange is None or not state.shares.steps:
        return
    with contextlib.suppress(Exception):
        _tell_epochs(state)
        words = f"{state.shares.steps} {state.calls}"
        state.session.exchange.put(_key(state, "left", state.session.who.rank), words)


def _key(state: TensorFlowState, topic: str, rank: int | None) -> str:
    return key_of(state.session.who, topic, rank)


def _tell_epochs(state: TensorFlowState) -> None:
    shares, session = state.shares, state.session
    assert session.exchange is not None
    while shares.told_epochs < len(shares.ended):
        number = shares.told_epochs
        shares.told_epochs += 1
        session.exchange.put(_key(state, f"epoch/{number}", session.who.rank), str(shares.ended[number]))


def _peers(state: TensorFlowState) -> list[int]:
    """Rank 0 hears the others, a few at a time; the others hear rank 0."""
    if state.session.who.rank != 0:
        return [0]
    world, begin = state.world, int(time.monotonic() / LOOK_S) * PEERS_AT_ONCE
    return sorted({1 + (begin + number) % (world - 1) for number in range(min(PEERS_AT_ONCE, world - 1))})


def _hear_epochs(state: TensorFlowState) -> None:
    """A peer whose epoch had fewer batches than this rank's."""
    shares, session = state.shares, state.session
    assert session.exchange is not None
    if not shares.steps:
        return
    for peer in _peers(state):
        number = shares.next.get(peer, 0)
        own = shares.ended[number] if number < len(shares.ended) else None
        stuck = state.entered_at and time.monotonic() - state.entered_at > STUCK_S
        if own is None and (not stuck or state.running == ITERATOR):
            continue  # nothing to compare with yet
        text = session.exchange.get(_key(state, f"epoch/{number}", peer))
        if text is None or not text.isdecimal():
            continue
        theirs, mine = int(text), own if own is not None else shares.in_epoch + 1
        if mine == theirs or (own is None and mine < theirs):
            shares.next[peer] = number + (own is not None)
            continue
        shares.next[peer] = number + 1
        _tell(state, f"batches of epoch {number + 1}", peer, theirs, mine)


def _look_for_leavers(state: TensorFlowState) -> None:
    """A peer that left before calling the shared program that this rank is in."""
    exchange = state.session.exchange
    if exchange is None or state.world < 2:
        return
    for peer in _peers(state):
        steps, _, calls = (exchange.get(_key(state, "left", peer)) or "").partition(" ")
        if not steps.isdecimal() or not calls.isdecimal() or state.calls <= int(calls):
            continue
        if state.in_training:
            _tell(state, "steps before it left", peer, int(steps), state.shares.steps + 1)
        else:
            _tell(state, f"shared calls before it left, now {state.running}", peer, int(calls), state.calls)


def _look_for_others(state: TensorFlowState) -> None:
    """A peer that is about to run something new at the place in the order where this rank is in a known program."""
    session, call, running = state.session, state.calls, state.running
    if len(state.callers) > 1:
        return
    for peer in _peers(state):
        stated = session.ahead(Subject.PROGRAM, peer)
        if stated is None or not state.entered_at or state.calls != call:
            continue
        if stated.get(CALL, "").partition(REMARK)[2] == str(call):
            own = {NEXT: f"one more call of a known function{REMARK}{running}"}
            session.state(Subject.PROGRAM, own | {CALL: f"next{REMARK}{call}"})
            return


def _tell(state: TensorFlowState, what: str, peer: int, theirs: int, mine: int) -> None:
    if (what, peer) in state.shares.told:
        return
    state.shares.told.add((what, peer))
    rank = state.session.who.rank or 0
    pairs = sorted([(theirs, peer), (mine, rank)], key=lambda pair: pair[1])
    values: list[Any] = [[str(number), [who]] for number, who in pairs]
    words = f"{what}: {pairs[0][0]} on rank {pairs[0][1]} but {pairs[1][0]} on rank {pairs[1][1]}"
    fields = {"subject": Subject.BATCHES, "ordinal": 1, "what": what, "values": values, "certain": True}
    state.session.note("ContractBroken", fields, words)
    state.session.say(f"ranks differ in {words}")
    state.session.flush()
