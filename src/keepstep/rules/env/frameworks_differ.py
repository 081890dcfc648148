# SPDX-License-Identifier: Apache-2.0
"""ENV101: hosts have different versions of a framework."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, SoftwareSeen, count, rule
from keepstep.rules.env._inventories import InventoryDifference, by_process, differences

CRITICAL = frozenset(
    """
    Python tensorflow tensorflow-cpu tensorflow-rocm torch jax jaxlib keras tf-keras horovod deepspeed accelerate
    lightning pytorch-lightning transformers ray libtpu torch-xla nvidia-nccl-cu11 nvidia-nccl-cu12 nvidia-nccl-cu13
    """.split()
)


@rule(id="ENV101", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def frameworks_differ(seen: EvidenceSet) -> Findings:
    """Hosts have different versions of a framework, or of Python.

    ## What it looks like
    One host has a different TensorFlow, PyTorch, JAX, NCCL or Python version. Runs fail with messages about anything
    but this: shape errors, pickle protocols, collectives that never match, segmentation faults.

    ## Why it happens
    Hosts were set up at different times, an image tag moved, or a virtual environment is active on one host only.

    ## How we know
    Each process lists its installed packages, which are compared with what most processes have.

    ## What to do
    Use one image or one lock file on every host.

    ## When this is wrong
    The hosts differ on purpose (a parameter server without the GPU build).
    """
    critical = differences(seen, lambda fact: (*fact.packages, *fact.system), lambda name: name in CRITICAL)
    for group in by_process(each for each in critical if not _only_a_patch(each)):
        first, more = group[0], f" and {count(len(group) - 3, 'other')}" if len(group) > 3 else ""
        python = [each for each in group if each.name == "Python"]
        install = "; ".join(each.install for each in group if each.name != "Python")
        yield Found(
            title=f"{first.hosts} has {', '.join(each.words for each in group[:3])}{more}",
            because="all ranks of a run must have the same framework version",
            evidence=first.evidence,
            fixes=(
                *(Fix(do=f"use Python {each.usual} on {first.hosts}") for each in python),
                *((Fix(do=f"install the same versions on {first.hosts}", command=install),) if install else ()),
            ),
        )


def _only_a_patch(found: InventoryDifference) -> bool:
    return found.name == "Python" and found.odd[0][0].rpartition(".")[0] == found.usual.rpartition(".")[0]
