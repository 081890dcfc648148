# SPDX-License-Identifier: Apache-2.0
"""NET005: a rank waited for the store or the network longer than its limit."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.network import RendezvousTimeout
from keepstep.core.finding import Confidence, Fix, Found, Standing
from keepstep.core.rule import rule
from keepstep.rules.network._peers import BY_LIMIT, at_the_exit


@rule(
    id="NET005",
    cause=Cause.NETWORK_TIMEOUT_SLOW,
    needs=(RendezvousTimeout,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
)
def timeout_slow(seen: EvidenceSet) -> Iterator[Found]:
    """A rank waited for a key of the store until its limit: the other side was slow, or not there.

    ## What it looks like
    `wait timeout after 300000ms, keys: ...`, `Socket Timeout`, `Timeout waiting for key`,
    `RPC ran for more than set timeout (60000 ms)`.

    ## Why it happens
    The rank that writes the key is still busy (loading, downloading, compiling), the network or the file
    system is slow, or the limit is shorter than the work.

    ## How we know
    The wait ended by its own limit, and nothing else is seen that stopped the other side.

    ## What to do
    Raise the limit; look at what the other ranks were doing at that time.

    ## When this is wrong
    If the other rank had died, its own output says why. An agent's wait at the exit barrier is not counted: it
    comes after the work is over, and the agent goes on.
    """
    waited = [
        e
        for e in seen.all(RendezvousTimeout)
        if e.fact.where in BY_LIMIT and not seen.survived(e) and not at_the_exit(seen, e)
    ]
    if not waited:
        return
    remote = waited[0].fact.where == "remote call"
    yield Found(
        title=f"a rank waited for {'a remote call' if remote else 'the store'} until its time limit",
        because=f"{'an answer' if remote else 'a key'} that another rank gives did not come in time; nothing seen says why",
        evidence=tuple(waited),
        ranks=(),
        fixes=(
            Fix(
                do="raise the time limit",
                command="dist.init_process_group(..., timeout=datetime.timedelta(hours=1))",
            ),
            Fix(do="see what the others did at that time: loading, downloading, compiling, or gone"),
        ),
    )
