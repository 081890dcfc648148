# SPDX-License-Identifier: Apache-2.0
"""TPU001: another process held the TPU."""

from __future__ import annotations

from keepstep.model.facts import StepSeen, TpuBusy
from keepstep.rules.api import TO_THE_END, Cause, Evidence, EvidenceSet, Findings, Fix, Found, Safety, rule
from keepstep.rules.asking.exceptions import ranks_told


@rule(
    id="TPU001",
    cause=Cause.TPU_DEVICE_BUSY_IN_USE,
    needs=(TpuBusy,),
    explains=(
        Cause.TPU_INITIALIZATION_FAILURE,
        Cause.FRAMEWORK_BUG_SEGFAULT,
        Cause.USER_CODE_EXCEPTION,
        Cause.NETWORK_CONNECTION_RESET_PEER_DIED,
        Cause.NETWORK_TIMEOUT_SLOW,
    ),
)
def device_busy(seen: EvidenceSet) -> Findings:
    """The TPU could not be opened because another process held it.

    ## What it looks like
    `The TPU is already in use by process with pid`, `libtpu.so already in use by another process`,
    `Device or resource busy` on `/dev/accel*` or `/dev/vfio/*`, or a lock file at `/tmp/libtpu_lockfile`.
    JAX may then fall back to the CPU without an error.

    ## Why it happens
    Only one process at a time may use a TPU. A leftover process of an earlier run, a notebook, a second rank on the
    host, or a child that imported the library holds it; or a lock file was left behind.

    ## How we know
    libtpu or the kernel refused access to the device, and says so.

    ## What to do
    End the process that holds the device; if there is none, remove the lock file.

    ## When this is wrong
    With several processes, torch_xla's helper processes print the libtpu line, and training goes on.
    """
    busy = tuple(e for e in seen.all(TpuBusy) if not seen.survived(e) and not _trained_on(seen, e))
    if not busy:
        return
    pid = next((e.fact.pid for e in busy if e.fact.pid), None)
    holder = f"process {pid}" if pid else "another process"
    yield Found(
        title=f"the TPU was already held by {holder}",
        because=f"only one process may use a TPU, and {holder} held it when this run started",
        evidence=busy,
        ranks=ranks_told(seen, busy),
        fixes=(
            Fix(do="check which process holds the TPU", command="sudo lsof -w /dev/accel* /dev/vfio/*"),
            Fix(do="end it if it is left over", command=f"kill {pid or 'PID'}", safety=Safety.NEEDS_OWNER),
            Fix(do="if no process holds it, remove the stale lock file", command="sudo rm -f /tmp/libtpu_lockfile"),
        ),
    )


def _trained_on(seen: EvidenceSet, busy: Evidence[TpuBusy]) -> bool:
    """Whether nothing failed and the same stream printed a step later: torch_xla's helpers print this message too."""
    line = busy.origin.line or 0
    return not seen.broken and any((e.origin.line or 0) > line for e in seen.near(busy, StepSeen, after=TO_THE_END))
