# SPDX-License-Identifier: Apache-2.0
"""NET009: a communication library gave up without a reason."""

from __future__ import annotations

from keepstep.rules.api import Cause, CommunicationFailed, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule


@rule(
    id="NET009",
    cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
    needs=(CommunicationFailed,),
    standing=Standing.GUESS,
    confidence=Confidence.HYPOTHESIS,
    explains=(Cause.UNKNOWN_NOT_ESTABLISHED,),
)
def communication_failed(seen: EvidenceSet) -> Findings:
    """NCCL reported a system or internal error, and the log does not hold NCCL's own explanation.

    ## What it looks like
    `ncclSystemError: System call (e.g. socket, malloc) or external library call failed`,
    `unhandled system error`, `internal error, NCCL version 2.4.8`, `ncclInternalError: Internal check failed`.

    ## Why it happens
    Usually, a socket between hosts could not be opened (interface, route, firewall); sometimes, shared memory ran
    out. Between the GPUs of one process it is usually shared memory: a container has 64 MB by default.

    ## How we know
    We do not: the error code only names a class of errors. NCCL prints the reason only with NCCL_DEBUG set.

    ## What to do
    Run once more with `NCCL_DEBUG=INFO` and read the first `NCCL WARN`.

    ## When this is wrong
    Often. It is a guess, reported only when nothing else was found.
    """
    found = [
        e
        for e in seen.all(CommunicationFailed)
        if ("ystem" in e.fact.code or "nternal" in e.fact.code) and not seen.survived(e)
    ]
    if found and any(e.fact.one_host for e in found):
        yield Found(
            title="NCCL reported a system error between the GPUs of one process; the log does not say why",
            because="no network connects the GPUs of one process; usually, there is too little shared memory",
            evidence=tuple(found),
            confidence=Confidence.HYPOTHESIS,
            cause=Cause.RESOURCE_SHM,
            fixes=(
                Fix(do="give the container more shared memory", command="docker run --ipc=host IMAGE"),
                Fix(do="make NCCL print what failed", command="export NCCL_DEBUG=WARN"),
            ),
        )
    elif found:
        kind = "a system" if "ystem" in found[0].fact.code else "an internal"
        yield Found(
            title=f"NCCL reported {kind} error; the log does not say why",
            because="NCCL failed while it set up or used its connections, usually one between hosts",
            evidence=tuple(found),
            fixes=(Fix(do="make NCCL print what failed", command="export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET"),),
        )
