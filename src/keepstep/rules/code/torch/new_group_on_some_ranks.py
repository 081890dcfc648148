# SPDX-License-Identifier: Apache-2.0
"""COD117: only some ranks make a group."""

from __future__ import annotations

import ast
import re

from keepstep.rules.api import Cause, CodeCall, CodeDiverges, Confidence, EvidenceSet, Findings, Fix, Found, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, decided, diverging, program, reached_by, short
from keepstep.rules.code.torch._sources import Sources, sources

_ALONE = re.compile(r"\[(?![^\]]*\bfor\b)[^\[\],:]*\]")
"""A list of one rank: the own one."""


def _differs(known: ProjectFacts, texts: Sources, call: Call, ranks: Value) -> bool:
    """Whether ranks give different lists: made from the own rank, or filled with numbers that are."""
    if ranks.ranked:
        return True
    flow = texts.flow(call)
    node = flow.call_at(call) if flow is not None else None
    given = [each.value for each in node.keywords if each.arg == "ranks"] + node.args[:1] if node is not None else []
    if flow is None or not given:
        return False
    filled = flow.origin(given[0], given[0].lineno)
    if not isinstance(filled, ast.ListComp):
        return False
    turns = {each for part in filled.generators for each in _names(part.target)}
    assigned = known.assigned_in.get(call.fact.function, ())
    before = [each for each in assigned if each.fact.order < call.fact.order and not each.fact.operator]
    last = {each.fact.target: each.fact for each in before}
    used = [last[name] for name in _names(filled.elt) - turns if name in last]
    return any(each.value.ranked and not any(block.kind == "for" for block in each.within) for each in used)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


@rule(
    id="COD117", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeDiverges, CodeCall), confidence=Confidence.SUPPORTED
)
def new_group_on_some_ranks(seen: EvidenceSet) -> Findings:
    """A process group, a mesh or a wrapper is made by some ranks only.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def groups(rank):
        if rank < 4:
            return dist.new_group([0, 1, 2, 3])
        return None
    ```

    ## Why it happens
    Making a group is a collective of all ranks of the job, also of those that are not in the group. DDP and FSDP
    exchange shapes and weights when they wrap a model.

    ## How we know
    The order of collectives is followed on rank 0 and on another rank, through the functions that are called. Here the
    two differ.

    ## What to do
    ```python
    import torch.distributed as dist

    def groups(rank):
        group = dist.new_group([0, 1, 2, 3])
        return group if rank < 4 else None
    ```

    ## When this is wrong
    When `use_local_synchronization=True` is given to `new_group`.
    """
    for each in diverging(seen, ["group"], ["branch"]):
        fact = each.fact
        yield Found(
            title=f"{short(fact.collective)} is called by some ranks only",
            because=f"under `{fact.condition}` ({decided(fact)}) only some ranks reach"
            f" {short(fact.collective)}{reached_by(fact)}; it needs all ranks of the job",
            evidence=(each,),
            fixes=(Fix(do="let all ranks make all groups, in the same order"),),
        )
    known = program(seen)
    for call in known.calls("torch.distributed.new_group"):
        ranks = call.fact.argument("ranks", 0)
        if (
            ranks is None
            or not _differs(known, sources(seen), call, ranks)
            or _ALONE.fullmatch(ranks.text)
            or call.fact.argument("use_local_synchronization") is not None
        ):
            continue
        yield Found(
            title="each rank makes only the group that it is in",
            because=f"`{ranks.text}` differs by rank; all ranks must make all groups, in the same order, also"
            " those that they are not in",
            evidence=(call,),
            fixes=(Fix(do="make all groups in a loop on every rank, and keep the one that the rank is in"),),
        )
