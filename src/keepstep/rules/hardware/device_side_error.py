# SPDX-License-Identifier: Apache-2.0
"""HWD005: a GPU kernel made an invalid memory access."""

from __future__ import annotations

from keepstep.model.facts import DeviceFault, DeviceMemoryExhausted, Fact, LabelOutOfRange
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Standing, rule
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, once_a_line, who

_BETTER_KNOWN: tuple[type[Fact], ...] = (DeviceMemoryExhausted, LabelOutOfRange)


@rule(
    id="HWD005",
    cause=Cause.FRAMEWORK_BUG_SEGFAULT,
    needs=(DeviceFault,),
    standing=Standing.EXCEPTION,
    confidence=Confidence.HYPOTHESIS,
    explains=OF_A_DEAD_RANK,
)
def device_side_error(seen: EvidenceSet) -> Findings:
    """A GPU kernel made an invalid memory access: a bug in native code, rarely the device.

    ## What it looks like
    `CUDA error: an illegal memory access was encountered`, `misaligned address`, a failing kernel of a CUDA library
    (`CUBLAS_STATUS_EXECUTION_FAILED`). The error shows up at some later call.

    ## Why it happens
    An index past the end of a tensor in a custom or library kernel; memory freed while a collective still used it; a
    tensor too large for 32-bit indices; a build for another GPU.

    ## How we know
    The driver refused the access. It does not say why; usually the code on the GPU is wrong.

    ## What to do
    Make launches synchronous to find the line that fails, then look at the kernel; update the library it belongs to.

    ## When this is wrong
    If it follows one GPU or node and not the code, it is the hardware.
    """
    if any(seen.all(kind) for kind in _BETTER_KNOWN):
        return
    faults = once_a_line(
        e for e in seen.all(DeviceFault) if not e.fact.hardware and e.fact.xid is None and not seen.survived(e)
    )
    if not faults:
        return
    yield Found(
        title=f"a GPU kernel of {who(faults)} failed: {faults[0].fact.what}",
        because=f"code on the GPU failed ({faults[0].fact.what}); usually a bug in a kernel, rarely the device",
        evidence=faults,
        fixes=(
            Fix(do="find the call that fails", command="export CUDA_LAUNCH_BLOCKING=1"),
            Fix(do="find the invalid access", command="compute-sanitizer --tool memcheck python SCRIPT"),
            Fix(do="check whether the driver logged an Xid for this device", command="dmesg -T | grep -i xid"),
        ),
    )
