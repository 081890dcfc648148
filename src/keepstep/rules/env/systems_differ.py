# SPDX-License-Identifier: Apache-2.0
"""ENV103: hosts have different drivers, C libraries or kernels."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, SoftwareSeen, rule
from keepstep.rules.env._inventories import differences


@rule(id="ENV103", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def systems_differ(seen: EvidenceSet) -> Findings:
    """Hosts have different drivers, C libraries or architectures.

    ## What it looks like
    One host has a different NVIDIA driver, glibc or architecture.

    ## Why it happens
    Hosts are updated one after another, or belong to different generations.

    ## How we know
    Each process reads its host's versions, which are compared with what most hosts have.

    ## What to do
    Update the hosts to the same versions, or use only those that are alike.

    ## When this is wrong
    The difference may be harmless. Kernel patch versions never matter and are not reported.
    """
    for found in differences(
        seen, lambda fact: fact.system, lambda name: name in ("NVIDIA driver", "libc", "architecture")
    ):
        yield Found(
            title=f"{found.hosts} has {found.name} {found.odd[0][0]}, the others have {found.usual}",
            because="binaries and collectives may behave differently on that host",
            evidence=found.evidence,
            severity=Severity.WARNING,
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(
                    do="compare the hosts",
                    command="nvidia-smi --query-gpu=driver_version --format=csv; ldd --version | head -n1; uname -m",
                ),
            ),
        )
