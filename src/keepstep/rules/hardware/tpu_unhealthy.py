# SPDX-License-Identifier: Apache-2.0
"""HWD009: a TPU or its runtime reported a fault."""

from __future__ import annotations

from keepstep.model.facts import Preempted, TpuUnhealthy
from keepstep.rules.api import (
    SEEN_BY_OTHER_RANKS,
    Cause,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Safety,
    Standing,
    rule,
    shorten,
)
from keepstep.rules.asking.exceptions import ranks_told

UNSAID = ("the program on it was stopped",)
"""What a TPU reports for any program that it stopped, even for lack of memory."""


@rule(
    id="HWD009",
    cause=Cause.HARDWARE_TPU_UNHEALTHY,
    needs=(TpuUnhealthy,),
    explains=(
        *SEEN_BY_OTHER_RANKS,
        Cause.TPU_INITIALIZATION_FAILURE,
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
    ),
)
def tpu_unhealthy(seen: EvidenceSet) -> Findings:
    """A TPU, a link between TPUs, or the TPU runtime reported a fault.

    ## What it looks like
    `Core halted unexpectedly`, `Accelerator device halted prematurely`, `TPU ... is not HEALTHY`,
    `UNHEALTHY_MAINTENANCE`, `FATAL ERROR for [/dev/accel0 ...]`, `HBM ECC` errors, ICI link errors.

    ## Why it happens
    A TPU, its memory or a link failed; the host was under maintenance; the runtime ran out of host memory; or a program
    failed an on-device check.

    ## How we know
    The TPU driver or the service itself says so.

    ## What to do
    Restart the TPU and resume from the last checkpoint. If the fault returns, move to another TPU.

    ## When this is wrong
    A compiler bug can halt a core too: suspect it if the same program halts on healthy TPUs. A TPU that was preempted
    also looks unhealthy; if preemption is reported, that comes first.
    """
    ill = tuple(e for e in seen.all(TpuUnhealthy) if not seen.survived(e))
    if not ill:
        return
    what = shorten(ill[0].fact.what.strip(" :;."), 90)
    yield Found(
        title=f"a TPU reported a fault: {what}",
        because="the TPU driver or service reported the fault itself",
        evidence=ill,
        ranks=ranks_told(seen, ill),
        standing=Standing.SYMPTOM if seen.all(Preempted) or all(e.fact.what in UNSAID for e in ill) else None,
        fixes=(
            Fix(do="check the TPU's state and health", command="gcloud compute tpus tpu-vm describe NAME"),
            Fix(do="stop and start the TPU, then resume from the last checkpoint", safety=Safety.NEEDS_OWNER),
            Fix(do="if the fault returns on this TPU only, replace the TPU", safety=Safety.NEEDS_OWNER),
        ),
    )
