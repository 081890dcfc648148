# SPDX-License-Identifier: Apache-2.0
"""WRK003: a worker was lost and restarted, while the coordinator continued."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, Standing, WorkerReplaced, count, rule


@rule(
    id="WRK003",
    cause=Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    needs=(WorkerReplaced,),
    severity=Severity.NOTE,
    standing=Standing.SYMPTOM,
)
def came_back_alone(seen: EvidenceSet) -> Findings:
    """A worker was lost and restarted alone, while the coordinator continued with the others.

    ## What it looks like
    `keepstep run` says that it restarts one worker, and training continues. No checkpoint is needed: the variables
    are on the parameter servers.

    ## Why it happens
    One worker was killed, crashed or lost its host. Under `ParameterServerStrategy` the coordinator gives its steps
    to other workers, and uses it again once it answers at its address.

    ## How we know
    The supervisor saw the process exit and restarted it.

    ## What to do
    Nothing, if it happened once. If it happens often, read what the lost worker printed.

    ## When this is wrong
    The restart may not be harmless: steps that the lost worker had begun run again elsewhere, so a program that
    counts steps exactly may count some twice.
    """
    for lost in seen.groups(WorkerReplaced, by=lambda fact: str(fact.index)):
        fact, who = lost[-1].fact, lost[-1].who
        how = fact.signal or f"exit code {fact.code}"
        when = f" after {count(fact.steps, 'step')}" if fact.steps else ""
        rank = f" (rank {who})" if who is not None else ""
        often = f"{len(lost)} times" if len(lost) > 1 else ""
        title = f"worker {fact.index}{rank} was lost{when} ({how}) and came back"
        if often:
            title = f"worker {fact.index}{rank} was lost {often}, last with {how}{when}, and came back"
        fixes: tuple[Fix, ...] = ()
        if fact.left_in:
            fixes = (Fix(do=f"read what it printed before it exited, in lost/{fact.left_in} of the run's folder"),)
        yield Found(
            title=title,
            because="the coordinator continues without a worker, so keepstep restarted just this one at its address",
            evidence=lost,
            fixes=fixes,
        )
