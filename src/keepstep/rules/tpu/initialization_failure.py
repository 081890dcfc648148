# SPDX-License-Identifier: Apache-2.0
"""TPU002: the TPU system could not be initialised."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, ExceptionRaised, Findings, Fix, Found, TpuInitFailed, rule, shorten
from keepstep.rules.asking.exceptions import ranks_told

SLOW_TO_START = "taking more than"
FIXES = (
    Fix(
        do="start the program on every host of the slice at the same time",
        command='gcloud compute tpus tpu-vm ssh NAME --worker=all --command="python train.py"',
    ),
    Fix(do="check how the slice is described", command="env | grep -E '^(TPU|MEGASCALE|PJRT|XRT)_'"),
    Fix(do="check that the device files exist and can be opened", command="ls -l /dev/accel* /dev/vfio/*"),
)


@rule(
    id="TPU002",
    cause=Cause.TPU_INITIALIZATION_FAILURE,
    needs=(TpuInitFailed,),
    explains=(
        Cause.NETWORK_UNREACHABLE_OR_FIREWALL,
        Cause.NETWORK_TIMEOUT_SLOW,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.USER_CODE_EXCEPTION,
        Cause.FRAMEWORK_BUG_SEGFAULT,
    ),
)
def initialization_failure(seen: EvidenceSet) -> Findings:
    """The TPU system could not be initialised.

    ## What it looks like
    `TPU initialization failed`, `Failed to initialize TPU system`, `No ba16c7433 device found`,
    `Unable to initialize backend 'tpu'` raised as an error.

    ## Why it happens
    The program was not started on every host of the slice; the slice's addresses or bounds (`TPU_WORKER_HOSTNAMES`,
    `TPU_PROCESS_BOUNDS`) are wrong; the process may not open the device files; or libtpu and the framework are not
    compatible.

    ## How we know
    The runtime says that its initialisation failed. On a machine without TPUs, JAX only logs at INFO that the backend
    is missing; that does not count.

    ## What to do
    Start the program on all hosts of the slice at once, with the same libtpu, and read the reason in the message.

    ## When this is wrong
    If the TPU was only busy or is unhealthy, another finding says so and comes first. If the failure comes from a later
    rendezvous of the program, the TPU was already initialised, and process 0 is gone.
    """
    later = [
        e.fact.message for e in seen.all(ExceptionRaised) if any(f.function == "rendezvous" for f in e.fact.frames)
    ]
    failed = tuple(
        e
        for e in seen.all(TpuInitFailed)
        if SLOW_TO_START not in e.fact.what
        and not seen.survived(e)
        and not any(e.fact.what in message for message in later)
    )
    if not failed:
        return
    reason = shorten(failed[0].fact.what.strip(" :;."), 90)
    yield Found(
        title=f"the TPU system could not be initialised: {reason}",
        because="the TPU runtime gave up during its initialisation",
        evidence=failed,
        ranks=ranks_told(seen, failed),
        fixes=FIXES,
    )
