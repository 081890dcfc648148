# SPDX-License-Identifier: Apache-2.0
"""ENV104: hosts set variables differently that change what is loaded."""

from __future__ import annotations

from keepstep.model.facts import AgreedSetting, SoftwareSeen
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.config._exports import export
from keepstep.rules.env._inventories import ABSENT, differences


@rule(id="ENV104", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def variables_differ(seen: EvidenceSet) -> Findings:
    """Processes differ in a variable that changes what is loaded or compiled.

    ## What it looks like
    LD_LIBRARY_PATH, LD_PRELOAD, XLA_FLAGS, PYTHONPATH, or a TF_ or NCCL_ variable has a different value on one host.

    ## Why it happens
    A profile or module file on one host sets it.

    ## How we know
    Each process lists its variables of this kind, which are compared with what most processes have.

    ## What to do
    Set it in the job script.

    ## When this is wrong
    The difference is on purpose. Variables that must differ, such as the rank, are left out.
    """
    told = {each.fact.name for each in seen.all(AgreedSetting)}  # SYN101 reports these
    for found in differences(seen, lambda fact: fact.variables, lambda name: name not in told):
        mend = f"unset {found.name}" if found.usual == ABSENT else export(found.name, found.usual)
        yield Found(
            title=f"{found.hosts} has {found.name}={found.odd[0][0][:60]}, the others have {found.usual[:60]}",
            because="it changes what is loaded, compiled or sent, and should be the same everywhere",
            evidence=found.evidence,
            severity=Severity.WARNING,
            confidence=Confidence.SUPPORTED,
            fixes=(Fix(do="set it to the same value everywhere", command=mend),),
        )
