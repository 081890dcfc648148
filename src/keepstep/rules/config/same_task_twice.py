# SPDX-License-Identifier: Apache-2.0
"""CFG010: two processes started as the same task."""

from __future__ import annotations

from collections import defaultdict

from keepstep.model.facts import (
    ExceptionRaised,
    FatalSignal,
    MemberRestarted,
    NativeAbort,
    ProcessExited,
    ServerStarted,
    StepSeen,
    TerminationRequested,
)
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule
from keepstep.rules.asking.fallout import FALLOUT

_LOOPBACK = lazy_pattern(r"^(?:localhost|127\.|\[?::1|0\.0\.0\.0)")


ENDS = (ExceptionRaised, FatalSignal, NativeAbort, ProcessExited, TerminationRequested)


@rule(
    id="CFG010",
    cause=Cause.CONFIG_CLUSTER_SPEC,
    needs=(ServerStarted,),
    confidence=Confidence.SUPPORTED,
    explains=(*FALLOUT, Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH, Cause.NETWORK_UNREACHABLE_OR_FIREWALL),
)
def same_task_twice(seen: EvidenceSet) -> Findings:
    """Two processes of one run started as the same task of the cluster.

    ## What it looks like
    The logs of two processes both say `Started server with target: grpc://10.0.0.1:2222`. The coordination service then
    mentions a task that "likely restarted", though nothing restarted.

    ## Why it happens
    TF_CONFIG was copied from one host to another without changing `task.index`.

    ## How we know
    Each server prints the address that the cluster gives to its task. Two logs name the same address before any
    training step, and the first process was still alive after the second had started.

    ## What to do
    Give every process its own index.

    ## When this is wrong
    The logs come from two attempts, one after the other, in separate files.
    """
    by_address: dict[str, dict[str, Evidence[ServerStarted]]] = defaultdict(dict)
    for each in seen.all(ServerStarted):
        if not _LOOPBACK.match(each.fact.address):
            by_address[each.fact.address].setdefault(each.origin.source, each)
    for address, started in by_address.items():
        twice = tuple(started.values())
        trouble = seen.broken or bool(seen.all(MemberRestarted))
        if len(twice) > 1 and trouble and not seen.all(StepSeen) and _met(seen, twice):
            yield Found(
                title=f"{len(twice)} processes started as the same task, at {address}",
                because="each started a server with the address that the cluster gives to one task",
                evidence=twice[:6],
                ranks=tuple(dict.fromkeys(e.who for e in twice if e.who is not None)),
                fixes=(Fix(do="give every process its own task index", command="echo $TF_CONFIG  # on each host"),),
            )
            return


def _met(seen: EvidenceSet, twice: tuple[Evidence[ServerStarted], ...]) -> bool:
    """Whether the first process was still alive when the second started: its log has no end, or goes on after that."""
    first, second = sorted(twice, key=lambda e: e.at or 0.0)[:2]
    of_first = [e for e in seen.items if e.origin.source == first.origin.source]
    if not any(isinstance(e.fact, ENDS) for e in of_first):
        return True
    spoke = [e.at for e in of_first if e.at is not None]
    return second.at is None or not spoke or max(spoke) >= second.at
