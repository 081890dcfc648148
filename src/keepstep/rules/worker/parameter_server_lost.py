# SPDX-License-Identifier: Apache-2.0
"""WRK002: a parameter server was lost."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from keepstep.base.wording import duration
from keepstep.model.facts import ConnectFailed, Fact, ParameterServerLost, ProcessExited, ServerStarted, StepSeen
from keepstep.model.facts.platform import ParameterServerAsked
from keepstep.model.facts.training import CheckpointSaved
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Safety, Standing, rule
from keepstep.rules.asking.fallout import FALLOUT, lasting

_TASK = re.compile(r"task:?\s?(\d+)", re.IGNORECASE)


@rule(
    id="WRK002",
    cause=Cause.WORKER_PARAMETER_SERVER_LOST,
    needs=(ParameterServerLost,),
    confidence=Confidence.SUPPORTED,
    standing=Standing.SYMPTOM,
    explains=(*FALLOUT, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def parameter_server_lost(seen: EvidenceSet) -> Findings:
    """A parameter server was lost, and with it the variables that it held.

    ## What it looks like
    `UNAVAILABLE: Socket closed` or `Connection reset by peer` from `/job:ps/replica:0/task:0`, or the
    coordinator's `Parameter server failure detected at PS task 0`.

    ## Why it happens
    The server's process was killed (memory, eviction, preemption) or its host was lost. Workers can be
    replaced, but a parameter server holds state, so the run cannot continue without a checkpoint.

    ## How we know
    An established connection to a task of the job `ps` broke. Where something says why that process
    exited, we report that instead. Where the guard recorded the checkpoints, the last one says how much
    was lost. The coordinator's guard also asks each server now and then how fast it answers.

    ## What to do
    Look at the parameter server's own log, give it more memory, and resume from a checkpoint.

    ## When this is wrong
    The server was never reached: then the cause is an address, a port or a firewall.
    """
    found = lasting(seen, ParameterServerLost)
    never = [e for e in found if e.fact.how and ("connect to all" in e.fact.how or "refused" in e.fact.how)]
    health = _health(seen, found)
    if not found or (len(never) == len(found) and not seen.all(StepSeen) and not health):
        return
    member = next((e.fact.member for e in found if e.fact.member), None)
    name = f"parameter server {member}" if member else "a parameter server"
    yield Found(
        title=f"{name} was lost during training",
        because=f"an established connection to it broke, and it holds the variables{health}{_cost(seen, found)}",
        evidence=found[:8],
        ranks=_ended(seen, found) or _at_its_address(seen, found),
        fixes=(
            Fix(do="read in the parameter server's own log why it exited"),
            Fix(do="resume from the last checkpoint, and give the server more memory", safety=Safety.NEEDS_OWNER),
        ),
    )


def _health(seen: EvidenceSet, told: Sequence[Evidence[ParameterServerLost]]) -> str:
    """What it answered to the coordinator before."""
    number = next((int(task[1]) for e in told if (task := _TASK.search(e.fact.member or ""))), 0)
    asked = [e for e in seen.all(ParameterServerAsked) if e.fact.number == number]
    answers = [e.fact.answer_s for e in asked if e.fact.answer_s is not None]
    if not answers:
        return ""
    silent = "" if asked[-1].fact.answer_s is not None else ", then no more"
    return f"; it had answered within {math.ceil(max(answers) * 1000)} ms{silent}"


def _cost(seen: EvidenceSet, told: Sequence[Evidence[Fact]]) -> str:
    """What was trained since the last checkpoint is gone with it."""
    lost = min((e.at for e in told if e.at is not None), default=None)
    if lost is not None and any(e.fact.answer_s and (e.at or 0.0) > lost for e in seen.all(ParameterServerAsked)):
        lost = None  # it still answered then: the line has its time from an earlier one
    saved = [e for e in seen.all(CheckpointSaved) if lost is None or (e.at is not None and e.at <= lost)]
    if not saved:
        return ""
    last = max(saved, key=lambda e: e.at or 0.0)
    before = "" if lost is None else f", {duration(lost - (last.at or lost))} before"
    return f"; the last checkpoint was saved at step {last.fact.step}{before}"


def _at_its_address(seen: EvidenceSet, told: Sequence[Evidence[Fact]]) -> tuple[int, ...]:
    """The only process that had started a server at an address that those who lost the server cannot reach now."""
    tellers = {e.who for e in told}
    refused = {e.fact.peer for e in seen.all(ConnectFailed) if e.who in tellers and e.fact.peer}
    ranks = {e.who for e in seen.all(ServerStarted) if e.fact.address in refused} - tellers
    return tuple(who for who in ranks if who is not None) if len(ranks) == 1 else ()


def _ended(seen: EvidenceSet, told: Sequence[Evidence[Fact]]) -> tuple[int, ...]:
    """The only process reported to have failed that is not one of those that lost the server."""
    tellers = {e.who for e in told}
    dead = {e.who for e in seen.all(ProcessExited) if e.fact.signal or e.fact.code} - tellers
    dead.discard(None)
    return tuple(who for who in dead if who is not None) if len(dead) == 1 else ()
