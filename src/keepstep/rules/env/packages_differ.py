# SPDX-License-Identifier: Apache-2.0
"""ENV102: hosts have different versions of other packages."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, SoftwareSeen, count, rule
from keepstep.rules.env._inventories import InventoryDifference, by_process, differences
from keepstep.rules.env.frameworks_differ import CRITICAL

NEAR = frozenset("numpy protobuf grpcio h5py ml-dtypes flax optax orbax-checkpoint safetensors pyarrow mpi4py".split())


def _told(found: list[InventoryDifference], severity: Severity, because: str) -> Found:
    first = found[0]
    more = f" and {count(len(found) - 1, 'other package')}" if len(found) > 1 else ""
    evidence = tuple({id(each): each for difference in found for each in difference.evidence}.values())
    return Found(
        title=f"{first.hosts} has {first.words}{more}",
        because=because,
        evidence=evidence,
        severity=severity,
        confidence=Confidence.SUPPORTED,
        fixes=(
            Fix(do="compare the installed packages", command="pip freeze | sort"),
            Fix(do="install from one lock file on every host"),
        ),
    )


@rule(id="ENV102", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def packages_differ(seen: EvidenceSet) -> Findings:
    """Hosts have different versions of packages other than the frameworks.

    ## What it looks like
    numpy, protobuf, grpcio or any other package differs between hosts.

    ## Why it happens
    Hosts were set up at different times.

    ## How we know
    Each process lists its installed packages, which are compared with what most processes have.

    ## What to do
    Use one lock file. The patch version of an unrelated package rarely matters; that of numpy or protobuf can.

    ## When this is wrong
    The package is not used by the training.
    """
    found = list(differences(seen, lambda fact: fact.packages, lambda name: name not in CRITICAL))
    for near in by_process(each for each in found if each.name in NEAR):
        yield _told(
            near, Severity.WARNING, "frameworks are built against it, so the hosts may compute or fail differently"
        )
    for rest in by_process(each for each in found if each.name not in NEAR):
        yield _told(rest, Severity.NOTE, "most such differences are harmless, unless the training imports the package")
