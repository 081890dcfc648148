# SPDX-License-Identifier: Apache-2.0
"""HWD107: the host has counted memory errors or machine checks."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, HostErrors, Severity, count, rule
from keepstep.rules.asking.process_endings import host_of

MANY = 100
"""Single errors that were corrected are what this memory is built for."""


@rule(id="HWD107", cause=Cause.HARDWARE_MACHINE_FAULT, needs=(HostErrors,), severity=Severity.WARNING)
def host_memory_errors(seen: EvidenceSet) -> Findings:
    """The kernel or rasdaemon has counted memory errors that were not corrected, or many that were.

    ## What it looks like
    Processes that are killed with SIGBUS, machine checks in the kernel's log, or nothing at all yet.

    ## Why it happens
    A memory module that fails; rarely a processor, or cosmic rays.

    ## How we know
    The counters of EDAC, of machine-check exceptions, and of rasdaemon.

    ## What to do
    Have the named module replaced; until then train elsewhere.

    ## When this is wrong
    The counters are old: rasdaemon keeps them after a module was replaced.
    """
    for each in seen.all(HostErrors):
        fact = each.fact
        if not fact.uncorrected and fact.corrected < MANY and not (fact.corrected and fact.during_test):
            continue
        counted = [count(fact.uncorrected, "error") + " not corrected"] if fact.uncorrected else []
        counted += [count(fact.corrected, "corrected error")] if fact.corrected else []
        yield Found(
            title=f"{host_of(each)} counted {' and '.join(counted)}: {fact.where}",
            because="some of them came during the test" if fact.during_test else "such errors tend to come again",
            evidence=(each,),
            confidence=Confidence.ESTABLISHED if fact.uncorrected or fact.during_test else Confidence.SUPPORTED,
            fixes=(Fix(do="see which module it is", command="grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*"),),
        )
