# SPDX-License-Identifier: Apache-2.0
"""HWD106: the host's memory changed what was written to it."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, DeviceWrong, EvidenceSet, Findings, Fix, Found, count, rule
from keepstep.rules.asking.process_endings import host_of
from keepstep.rules.hardware.gpu_computes_wrong import HOST


@rule(id="HWD106", cause=Cause.HARDWARE_MACHINE_FAULT, needs=(DeviceWrong,))
def host_memory_wrong(seen: EvidenceSet) -> Findings:
    """A pattern that was written to the host's memory was read back as something else.

    ## What it looks like
    Crashes in places that make no sense, damaged checkpoints and data, failures that come and go.

    ## Why it happens
    A faulty memory module or controller, or memory that is clocked too high.

    ## How we know
    `keepstep check gpu` fills a part of the free memory with patterns and reads them back.

    ## What to do
    Take the machine out of service, and test its memory as a whole.

    ## When this is wrong
    Hardly ever: another program cannot write there.
    """
    for each in seen.all(DeviceWrong):
        if each.fact.device == HOST:
            wrong = count(each.fact.count, "wrong byte")
            yield Found(
                title=f"the memory of {host_of(each)} does not keep what is written: {wrong}",
                because="a pattern was written and read back",
                evidence=(each,),
                confidence=Confidence.ESTABLISHED,
                fixes=(
                    Fix(do="take the machine out of service, and test its memory with memtest86+"),
                    Fix(do="see what the kernel has counted", command="grep . /sys/devices/system/edac/mc/mc*/*_count"),
                ),
            )
