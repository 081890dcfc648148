# SPDX-License-Identifier: Apache-2.0
"""COD101: only some ranks take part in a collective save."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.model.facts import CodeCall, CodeDiverges
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, lazy_pattern, rule
from keepstep.rules.code._asking import (
    Call,
    ProjectFacts,
    decided,
    diverging,
    is_on_some_ranks,
    program,
    reached_by,
    short,
)

_SHARDS = ("fsdp", "deepspeed")


_STATES = "torch.distributed.checkpoint.state_dict."
_SHARDING = lazy_pattern(r"(?i)fully_?shard|fsdp|parallelize", most=200)


def _is_sharded_later(known: ProjectFacts, place: Evidence[CodeDiverges]) -> bool:
    """Whether the model is still whole there: then its state is no collective."""
    return any(
        _SHARDING.search(each.fact.name) and (each.origin.line or 0) > (place.origin.line or 0)
        for each in known.inside(place.fact.function)
    )


def _saves_shards(seen: EvidenceSet) -> Iterator[Call]:
    """Where some ranks only save, or collect, the model that a Transformers Trainer shards."""
    known = program(seen)
    for each in known.calls("transformers.Trainer.save_model", "transformers.Trainer.model.state_dict"):
        arguments = known.among(each, "transformers.TrainingArguments")
        ways = _SHARDS if each.fact.method == "save_model" else _SHARDS[:1]  # with DeepSpeed its state is no collective
        shards = any(call.fact.argument(name) is not None for call in arguments for name in ways)
        if shards and is_on_some_ranks(each):
            yield each


@rule(
    id="COD101", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges, CodeCall), confidence=Confidence.SUPPORTED
)
def collective_save_on_one_rank(seen: EvidenceSet) -> Findings:
    """A save in which all ranks must take part is done by some of them.

    ## What it looks like
    ```python
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    def save(state, path):
        if dist.get_rank() == 0:
            dcp.save(state, checkpoint_id=path)
    ```

    ## Why it happens
    The state of a sharded model (FSDP, DeepSpeed, DTensor) lies on all ranks. Collecting it is a collective: one rank
    alone waits for the others for ever. torch.distributed.checkpoint, too, plans and writes with all ranks.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ.

    ## What to do
    ```python
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    def save(state, path):
        dcp.save(state, checkpoint_id=path)
    ```

    ## When this is wrong
    When the model was never sharded, or the group of the checkpoint has one rank.
    """
    known = program(seen)
    for each in diverging(seen, ["save"], ["branch"]):
        fact = each.fact
        if fact.collective.startswith(_STATES) and _is_sharded_later(known, each):
            continue
        yield Found(
            title=f"{short(fact.collective)} needs all ranks, and only some call it",
            because=f"under `{fact.condition}` ({decided(fact)}) only some ranks reach"
            f" {short(fact.collective)}{reached_by(fact)}; it exchanges data with all of them",
            evidence=(each,),
            fixes=(Fix(do="let all ranks call it; restrict only what writes the file to rank 0"),),
        )
    for call in _saves_shards(seen):
        yield Found(
            title=f"{call.fact.method} needs all ranks, and only some call it",
            because=f"the Trainer shards its model: {call.fact.method} collects it from all ranks",
            evidence=(call,),
            fixes=(Fix(do="let all ranks call save_model, which writes on one of them by itself"),),
        )
