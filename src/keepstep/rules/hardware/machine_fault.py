# SPDX-License-Identifier: Apache-2.0
"""HWD004: a machine of the run failed."""

from __future__ import annotations

from keepstep.model.facts import MachineFault
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Severity,
    rule,
)
from keepstep.rules.asking.process_endings import ended_badly, once_a_line


@rule(
    id="HWD004",
    cause=Cause.HARDWARE_MACHINE_FAULT,
    needs=(MachineFault,),
    confidence=Confidence.SUPPORTED,
    explains=(
        *SEEN_BY_OTHER_RANKS,
        Cause.WORKER_PARAMETER_SERVER_LOST,
        Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
        Cause.UNKNOWN_NOT_ESTABLISHED,
    ),
)
def machine_fault(seen: EvidenceSet) -> Findings:
    """A machine of the run failed, and its ranks with it.

    ## What it looks like
    Slurm's `Node failure on`, Kubernetes' `NodeNotReady`, a kernel panic, uncorrected memory errors (EDAC,
    MCE) or disk I/O errors, together with broken connections on the other ranks.

    ## Why it happens
    Hardware, power, or the system software of that machine.

    ## How we know
    The scheduler or the machine's own kernel says so.

    ## What to do
    Take the node out of service, and restart the run from its last checkpoint.

    ## When this is wrong
    A node can also be reported as not ready because of low memory or a network fault. Check its own log.
    """
    faults = once_a_line(seen.all(MachineFault))
    ended = [e for e in faults if _ends_it(e.fact) and not seen.survived(e)]
    if not faults:
        return
    node, what = next((e.fact.node for e in faults if e.fact.node), None), faults[0].fact.what
    fatal = bool(ended) or ended_badly(seen)
    after = "its ranks ended with it" if fatal else "nothing here says that it ended the run"
    yield Found(
        title=f"machine {node or 'of the run'} {'failed' if fatal else 'reported a fault'}: {what}",
        because=f"the machine's kernel or the scheduler reported: {what}; {after}",
        evidence=faults,
        severity=None if fatal else Severity.WARNING,
        fixes=(
            Fix(
                do="check the state of the node",
                command=f"scontrol show node {node or 'NODE'} || kubectl describe node {node or 'NODE'}",
            ),
            Fix(
                do="take it out of the pool",
                command=f"scontrol update nodename={node or 'NODE'} state=drain reason=fault",
                safety=Safety.NEEDS_OWNER,
            ),
            Fix(do="restart from the last checkpoint without it"),
        ),
    )


def _ends_it(fact: MachineFault) -> bool:
    """Whether the message itself says that the machine stopped, or that the job ended for it."""
    return "ended the job" in fact.what or fact.what.startswith("kernel panic")
