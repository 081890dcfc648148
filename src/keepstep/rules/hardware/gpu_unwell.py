# SPDX-License-Identifier: Apache-2.0
"""HWD101: a GPU reports errors or slows itself down."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, GpuSeen, Severity, count, rule
from keepstep.rules.asking.process_endings import host_of


@rule(id="HWD101", cause=Cause.HARDWARE_GPU_FAULT_XID_ECC, needs=(GpuSeen,))
def gpu_unwell(seen: EvidenceSet) -> Findings:
    """A GPU reports uncorrected memory errors or slows itself down.

    ## What it looks like
    The driver counts uncorrected ECC errors, or corrected ones during `keepstep check gpu`, or says that the hardware
    lowers its clocks because of power or heat.

    ## Why it happens
    A failing device, fan or power supply.

    ## How we know
    The driver's own counters.

    ## What to do
    Take the device out of service and have it checked.

    ## When this is wrong
    The errors are old, and a reset would clear them.
    """
    for each in seen.all(GpuSeen):
        fact, where = each.fact, host_of(each)
        if fact.uncorrected_errors or fact.throttled or fact.corrected_in_test:
            what = fact.throttled or f"{count(fact.corrected_in_test, 'memory error')} corrected during the test"
            if fact.uncorrected_errors:
                what = count(fact.uncorrected_errors, "uncorrected memory error")
            yield Found(
                title=f"GPU {fact.index} on {where} reports {what}",
                because="ranks on this GPU fail, or make all other ranks wait",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.ESTABLISHED,
                fixes=(
                    Fix(
                        do="check the device", command=f"nvidia-smi -q -i {fact.index} -d ECC,PERFORMANCE,ROW_REMAPPER"
                    ),
                ),
            )
