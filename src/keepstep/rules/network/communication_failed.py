# SPDX-License-Identifier: Apache-2.0
"""NET009: a communication library gave up without a reason."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import CommunicationFailed
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule


@rule(
    id="NET009",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(CommunicationFailed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def communication_failed(seen: EvidenceSet) -> Iterator[Found]:
    """NCCL reported a system or internal error, and its own words about it were not kept.

    ## What it looks like
    `ncclSystemError: System call (e.g. socket, malloc) or external library call failed`,
    `unhandled system error`, `internal error, NCCL version 2.4.8`, `ncclInternalError: Internal check failed`.

    ## Why it happens
    Mostly a socket between hosts that could not be opened (interface, route, firewall), sometimes
    shared memory; between the GPUs of one process mostly shared memory, of which a container has 64 MB.

    ## How we know
    We do not: the code names a class of errors. The line that says more is printed only with NCCL_DEBUG.

    ## What to do
    Run once more with `NCCL_DEBUG=INFO` and read the first `NCCL WARN`.

    ## When this is wrong
    Often: that is why it is a guess, and given only when nothing else is found.
    """
    found = [
        e
        for e in seen.all(CommunicationFailed)
        if ("ystem" in e.fact.code or "nternal" in e.fact.code) and not seen.survived(e)
    ]
    if found and any(e.fact.one_host for e in found):
        yield Found(
            title="NCCL reported a system error between the GPUs of one process, and the log does not hold its reason",
            because="there is no network between them: mostly there is too little shared memory",
            evidence=tuple(found),
            confidence=Confidence.HYPOTHESIS,
            cause=Cause.RESOURCE_SHM,
            fixes=(
                Fix(do="give the container more shared memory", command="docker run --ipc=host ..."),
                Fix(do="let NCCL say what failed", command="NCCL_DEBUG=WARN python ..."),
            ),
        )
    elif found:
        kind = "a system" if "ystem" in found[0].fact.code else "an internal"
        yield Found(
            title=f"NCCL reported {kind} error and the log does not hold its reason",
            because="NCCL failed while it set up or used its connections, which is mostly one between hosts",
            evidence=tuple(found),
            fixes=(
                Fix(
                    do="let NCCL say what failed",
                    command="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...",
                ),
            ),
        )
