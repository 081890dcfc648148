# SPDX-License-Identifier: Apache-2.0
"""HWD009: a TPU or its runtime reported ill health."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.platform import Preempted, TpuUnhealthy
from keepstep.core.finding import Fix, Found, Safety, Standing
from keepstep.core.rule import rule
from keepstep.core.wording import shorten
from keepstep.rules.questions.exceptions import ranks_told

UNSAID = ("the program on it was stopped",)
"""What a TPU says of any program that it gave up, also for want of memory."""


@rule(
    id="HWD009",
    cause=Cause.HARDWARE_TPU_UNHEALTHY,
    needs=(TpuUnhealthy,),
    explains=(
        Cause.TPU_INITIALIZATION_FAILURE,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
    ),
)
def tpu_unhealthy(seen: EvidenceSet) -> Iterator[Found]:
    """A TPU, a link between chips, or the TPU's runtime reported ill health.

    ## What it looks like
    `Core halted unexpectedly`, `Accelerator device halted prematurely`, `TPU ... is not HEALTHY`,
    `UNHEALTHY_MAINTENANCE`, `FATAL ERROR for [/dev/accel0 ...]`, `HBM ECC` errors, ICI link errors.

    ## Why it happens
    A chip, its memory or a link failed; the host was under maintenance; the runtime ran out of host memory;
    or a program ran into an on-device check.

    ## How we know
    The TPU driver or the service itself says so.

    ## What to do
    Restart the TPU, move to another one if it comes again, and resume from the last checkpoint.

    ## When this is wrong
    A halted core can also come from a compiler bug: if the same program halts on healthy chips, suspect that.
    A TPU that was taken back looks ill as well: where that is said, it goes first.
    """
    ill = tuple(e for e in seen.all(TpuUnhealthy) if not seen.survived(e))
    if not ill:
        return
    what = shorten(ill[0].fact.what.strip(" :;."), 90)
    yield Found(
        title=f"a TPU reported ill health: {what}",
        because="the TPU driver or service reported the fault itself",
        evidence=ill,
        ranks=ranks_told(seen, ill),
        standing=Standing.SYMPTOM if seen.all(Preempted) or all(e.fact.what in UNSAID for e in ill) else None,
        fixes=(
            Fix(do="look at the TPU's state and health", command="gcloud compute tpus tpu-vm describe NAME"),
            Fix(do="stop and start the TPU, then resume from the last checkpoint", safety=Safety.NEEDS_OWNER),
            Fix(
                do="if it comes back on this TPU only, give it back and take another",
                safety=Safety.NEEDS_OWNER,
            ),
        ),
    )
