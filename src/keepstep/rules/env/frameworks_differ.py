# SPDX-License-Identifier: Apache-2.0
"""ENV101: hosts have different versions of a framework."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.software import SoftwareSeen
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.rules.env._inventories import differences

CRITICAL = frozenset(
    {
        "Python",
        "tensorflow",
        "tensorflow-cpu",
        "tensorflow-rocm",
        "torch",
        "jax",
        "jaxlib",
        "keras",
        "tf-keras",
        "horovod",
        "deepspeed",
        "accelerate",
        "lightning",
        "pytorch-lightning",
        "transformers",
        "ray",
        "libtpu",
        "torch-xla",
        "nvidia-nccl-cu11",
        "nvidia-nccl-cu12",
        "nvidia-nccl-cu13",
    }
)


def _install(name: str, version: str) -> str:
    return f"pyenv install {version}" if name == "Python" else f"pip install '{name}=={version}'"


@rule(id="ENV101", cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES, needs=(SoftwareSeen,))
def frameworks_differ(seen: EvidenceSet) -> Iterator[Found]:
    """Hosts have different versions of a framework, or of Python.

    ## What it looks like
    One host has another TensorFlow, PyTorch, JAX, NCCL or Python than the rest. Runs fail with messages that
    name anything but this: shape errors, pickle protocols, collectives that never match, segmentation faults.

    ## Why it happens
    Hosts were set up at different times, a moving image tag, a virtual environment that is active on one host
    only.

    ## How we know
    Each process lists its distributions; they are compared with what most have.

    ## What to do
    Use one image or one lock file on every host.

    ## When this is wrong
    Hosts that play different roles on purpose (a parameter server without the GPU build).
    """
    for found in differences(seen, lambda fact: (*fact.packages, *fact.system), lambda name: name in CRITICAL):
        value = found.odd[0][0]
        if found.name == "Python" and value.rpartition(".")[0] == found.usual.rpartition(".")[0]:
            continue
        yield Found(
            title=f"{found.hosts} has {found.name} {value}, the others {found.usual}",
            because="the ranks of one run must have the same framework",
            evidence=found.evidence,
            fixes=(Fix(do=f"install the same on every host (on {found.hosts})", command=_install(found.name, found.usual)),),
        )
