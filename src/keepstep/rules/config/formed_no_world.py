# SPDX-License-Identifier: Apache-2.0
"""CFG201: a rank trains in a world of its own."""

from __future__ import annotations

from keepstep.model.facts import WorldFormed
from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.api import ranks as say_ranks

MEANT = ("torchrun", "TF_CONFIG", "JAX", "keepstep run")
"""Launchers whose variables are set only to form a world."""


@rule(
    id="CFG201",
    cause=Cause.CONFIG_TRAINS_ALONE,
    needs=(WorldFormed,),
    explains=(Cause.SYNC_RACE_ON_SHARED_STATE, Cause.SYNC_REPLICA_DESYNC),
)
def formed_no_world(seen: EvidenceSet) -> Findings:
    """A rank trains in a world of its own, though its launcher started it as one of several.

    ## What it looks like
    Nothing fails. Every rank trains alone on its share of the data, the results are worse than with one process, and
    all ranks write the same checkpoints.

    ## Why it happens
    The script never forms the process group or strategy: `init_process_group` or `jax.distributed.initialize()` is
    missing, or the script uses a single-worker strategy while TF_CONFIG names several workers.

    ## How we know
    At the first step, the guard compares the world that the framework formed with the one that the launcher's variables
    describe.

    ## What to do
    Form the world before building the model. The fix names the call.

    ## When this is wrong
    Independent runs (a sweep) were started as tasks of one job. Their scheduler's variables look the same, so this case
    is only reported as a hypothesis.
    """
    alone = [e for e in seen.all(WorldFormed) if e.fact.at_step and e.fact.size == 1 and (e.fact.meant or 1) > 1]
    joined = {e.who for e in seen.all(WorldFormed) if e.fact.size > 1}
    alone = [e for e in alone if e.who not in joined]
    if not alone:
        return
    fact = alone[0].fact
    sure = fact.meant_by in MEANT
    ranks = tuple(dict.fromkeys(e.who for e in alone if e.who is not None))
    if fact.framework is None:  # several processes wrote to one folder, each as the only rank
        title = f"{fact.meant} processes trained side by side, each as rank 0 of a world of its own"
    else:
        title = f"{say_ranks(ranks)} trained alone: {fact.meant_by} describes a world of {fact.meant}, "
        title += f"{fact.framework} formed none"
    yield Found(
        title=title,
        because="at the first step, the framework's world had one member",
        evidence=tuple(alone),
        ranks=ranks,
        confidence=Confidence.ESTABLISHED if sure else Confidence.HYPOTHESIS,
        severity=None if sure else Severity.WARNING,
        fixes=_FIXES.get(fact.framework or "", ()),
    )


_FIXES = {
    "torch": (
        Fix(
            do="form the process group and wrap the model",
            code="torch.distributed.init_process_group(); model = DistributedDataParallel(model)",
        ),
    ),
    "tensorflow": (
        Fix(
            do="create the strategy before anything else, and build the model in its scope",
            code="strategy = tf.distribute.MultiWorkerMirroredStrategy()",
        ),
    ),
    "jax": (Fix(do="join the other processes before using JAX", code="jax.distributed.initialize()"),),
}
