# SPDX-License-Identifier: Apache-2.0
"""NET005: a rank waited for the store or a remote call until its time limit."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, RendezvousTimeout, Standing, rule
from keepstep.rules.network._peers import BY_LIMIT, at_the_exit


@rule(
    id="NET005",
    cause=Cause.NETWORK_TIMEOUT_SLOW,
    needs=(RendezvousTimeout,),
    standing=Standing.SYMPTOM,
    confidence=Confidence.HYPOTHESIS,
)
def timeout_slow(seen: EvidenceSet) -> Findings:
    """A rank waited for a key in the store until its time limit: the other side was slow, or not there.

    ## What it looks like
    `wait timeout after 300000ms, keys: ...`, `Socket Timeout`, `Timeout waiting for key`,
    `RPC ran for more than set timeout (60000 ms)`.

    ## Why it happens
    The rank that writes the key is still busy (loading, downloading, compiling), the network or the file system is
    slow, or the time limit is shorter than the work takes.

    ## How we know
    The wait ended at its own time limit, and no evidence shows that anything stopped the other side.

    ## What to do
    Raise the time limit, and look at what the other ranks were doing at that time.

    ## When this is wrong
    If the other rank had died, its own output says why. An agent's wait at the exit barrier does not count: it comes
    after the work is over, and the agent goes on.
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
        because=f"another rank did not {'answer' if remote else 'write the key'} in time; no evidence shows why",
        evidence=tuple(waited),
        ranks=(),
        fixes=(
            Fix(do="raise the time limit", code="dist.init_process_group(..., timeout=datetime.timedelta(hours=1))"),
            Fix(do="check what the other ranks were doing then: loading, downloading, compiling, or dead"),
        ),
    )
