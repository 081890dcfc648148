# SPDX-License-Identifier: Apache-2.0
"""CFG012: accelerators of the job have no rank."""

from __future__ import annotations

from keepstep.model.facts import AcceleratorAsked, DevicesLeft, RanksPerNode
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, ranks_of, rule
from keepstep.rules.api import ranks as say_ranks
from keepstep.rules.asking.accelerator_use import uses

FEWEST = 2
"""A single rank may use all devices of its node by itself."""


@rule(
    id="CFG012",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(DevicesLeft, RanksPerNode),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def devices_unused(seen: EvidenceSet) -> Findings:
    """The job has accelerators that no rank uses.

    ## What it looks like
    Nothing fails. Lightning prints `GPU available but not used`; or a job with `--gres=gpu:8` starts its ranks with
    `--nproc_per_node=4`.

    ## Why it happens
    The number of ranks was set for another machine, or the trainer was not told to use the accelerator.

    ## How we know
    The trainer says so; or the guard saw on which devices JAX's programs ran; or the job's request and its launcher's
    command, both in the log, name different numbers.

    ## What to do
    Start one rank for each device, or ask for fewer devices.

    ## When this is wrong
    If each rank uses several devices (a model split by hand), or another program of the job uses the rest.
    """
    left = seen.all(DevicesLeft)
    if left and left[0].fact.used is not None and left[0].fact.there:
        fact, idle = left[0].fact, ranks_of(left)
        yield Found(
            title=f"{say_ranks(idle)} trained on {fact.used} of {fact.there} devices",
            because=f"the guard saw no program run on the other {fact.what} devices, though the training was under way",
            evidence=left[:4],
            ranks=idle,
            fixes=(Fix(do="build the mesh of all devices", code="jax.make_mesh((jax.device_count(),), ('data',))"),),
        )
        return
    if left:
        yield Found(
            title=f"the trainer left the {left[0].fact.what} of this machine unused",
            because="the trainer says that one is available and not used",
            evidence=left[:4],
            ranks=(),
            fixes=(Fix(do="tell the trainer to use it", code="Trainer(accelerator='auto', devices='auto')"),),
        )
        return
    asked = [e for e in seen.all(AcceleratorAsked) if e.fact.per_node]
    started = seen.all(RanksPerNode)
    numbers, ranks = {e.fact.per_node for e in asked}, {e.fact.count for e in started}
    chosen = any(e.fact.chosen for e in seen.all(AcceleratorAsked))
    nccl = any("nccl" in e.fact.how for e in seen.all(AcceleratorAsked)) or bool(uses(seen))
    if len(numbers) != 1 or len(ranks) != 1 or chosen or not nccl:
        return
    there, used = numbers.pop() or 0, ranks.pop()
    if FEWEST <= used < there:
        yield Found(
            title=f"{there - used} of {there} GPUs per node have no rank",
            because=f"the job asked for {there} GPUs on each node, and its launcher starts {used} ranks there",
            evidence=(*asked[:2], *started[:2]),
            ranks=(),
            fixes=(
                Fix(do="start one rank for each GPU", command=f"torchrun --nproc-per-node={there} SCRIPT"),
                Fix(do="or ask for fewer GPUs", command=f"sbatch --gres=gpu:{used} SCRIPT"),
            ),
        )
