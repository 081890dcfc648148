# SPDX-License-Identifier: Apache-2.0
"""HWD004: a machine of the run failed."""

from __future__ import annotations

from keepstep.model.facts import MachineFault
from keepstep.rules.api import SEEN_BY_OTHER_RANKS, Cause, Confidence, EvidenceSet, Findings, Fix, Found, Safety, rule
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
    if not faults or not (ended or ended_badly(seen)):
        return
    node = next((e.fact.node for e in faults if e.fact.node), None)
    yield Found(
        title=f"machine {node or 'of the run'} failed: {faults[0].fact.what}",
        because=f"the machine's kernel or the scheduler reported: {faults[0].fact.what}; its ranks ended with it",
        evidence=faults,
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
