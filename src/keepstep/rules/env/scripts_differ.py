# SPDX-License-Identifier: Apache-2.0
"""ENV105: the training script is not the same everywhere."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, SoftwareSeen, rule
from keepstep.rules.env._inventories import differences


@rule(id="ENV105", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def scripts_differ(seen: EvidenceSet) -> Findings:
    """The training script is not the same on every host.

    ## What it looks like
    One host runs an older or edited copy of the script. Ranks then compute different things and hang in a
    collective.

    ## Why it happens
    The script is copied to local disks, a branch was not pulled on one host, or someone edited it in one container.

    ## How we know
    Each process hashes the content of the script.

    ## What to do
    Copy it again, or keep it on a shared disk or in the image.

    ## When this is wrong
    The scripts differ on purpose, by role.
    """
    for found in differences(
        seen, lambda fact: ((fact.script, fact.script_hash or "unreadable"),) if fact.script else ()
    ):
        yield Found(
            title=f"{found.name} on {found.hosts} differs from the copy on the other hosts",
            because=f"its content hash is {found.odd[0][0][:12]} there and {found.usual[:12]} elsewhere",
            evidence=found.evidence,
            fixes=(Fix(do="compare the copies, and copy it again", command=f"sha256sum {found.name}"),),
        )
