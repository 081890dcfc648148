# SPDX-License-Identifier: Apache-2.0
"""COD124: tensors are gathered whose lengths depend on each rank's data."""

from __future__ import annotations

import ast

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule, shorten
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._sources import Flow, Sources, sources

_GATHERS = {
    "torch.distributed.all_gather": ("tensor", 1),
    "torch.distributed.all_gather_into_tensor": ("input_tensor", 1),
    "torch.distributed.nn.all_gather": ("tensor", 0),
    "accelerate.Accelerator.gather": ("tensor", 0),
    "accelerate.Accelerator.gather_for_metrics": ("input_data", 0),
}
_SELECTS = ("nonzero", "masked_select", "unique", "argwhere", "unique_consecutive")
_KEEPS = frozenset(
    "squeeze unsqueeze view reshape contiguous float long int half double cuda cpu to detach clone flatten t".split()
)
"""Methods after which it is as long as before, or depends as much on the data."""
_LEVELS = ("pad", "all_reduce", "all_gather_object", "gather_object", "max_len", "topk", "truncat")


def _selects(flow: Flow, node: ast.expr, line: int, hops: int = 4) -> tuple[str, str] | None:
    """What makes its length depend on the data, and where; None: nothing that is plain to see."""
    node = flow.origin(node, line)
    line = node.lineno
    if not hops:
        return None
    if isinstance(node, ast.Subscript):
        if _is_mask(flow, node.slice, line):
            return f"{_shown(node)} keeps as many as the mask holds", f"line {line}"
        inner = node.value
        one = isinstance(inner, ast.Call) and _name(inner) == "where" and len(inner.args) == 1
        return (f"{_shown(node)} has one entry for each hit", f"line {line}") if one else None
    if isinstance(node, ast.Call):
        name = _name(node)
        if name in _SELECTS and not (name == "unique" and _is_foreign(node)):
            return f"{_shown(node)} has as many entries as the data has", f"line {line}"
        if name == "generate":
            return "generate() stops where this rank's sequences end", f"line {line}"
        if name in _KEEPS and isinstance(node.func, ast.Attribute):
            return _selects(flow, node.func.value, line, hops - 1)
    return None


def _handed_in(known: ProjectFacts, trees: Sources, gather: Call) -> tuple[str, str] | None:
    """The same for what a function that gathers was given, by any of its callers."""
    value = gather.fact.argument(*_GATHERS[gather.fact.name])
    for place, given in known.origins(gather, value) if value is not None else ():
        flow = trees.flow(place) if place is not gather else None
        node = flow.argument_at(place, given) if flow is not None else None
        why = _selects(flow, node, place.origin.line or 0) if flow is not None and node is not None else None
        if why is not None and not _levels(known, place):
            return why[0], f"{place.origin.source.rpartition('/')[2]}, {why[1]}"
    return None


def _is_mask(flow: Flow, index: ast.expr, line: int) -> bool:
    index = flow.origin(index, line)
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.Invert):
        index = flow.origin(index.operand, line)
    if isinstance(index, ast.BinOp) and isinstance(index.op, ast.BitAnd | ast.BitOr):
        return _is_mask(flow, index.left, line)
    if not isinstance(index, ast.Compare) or len(index.ops) != 1:
        return False
    return isinstance(index.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE | ast.Eq | ast.NotEq)


def _shown(node: ast.expr) -> str:
    return f"`{shorten(ast.unparse(node), 60)}`"


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_foreign(call: ast.Call) -> bool:
    """``np.unique(x)``: no tensor."""
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "torch") in ("np", "numpy", "pd")


def _receives_alike(flow: Flow, call: ast.Call, given: ast.expr) -> bool:
    """Whether what is received into is made like this rank's own tensor: else it may have the lengths of the others."""
    parts = flow.origin(call.args[0], call.lineno) if call.args else None
    if isinstance(parts, ast.BinOp):
        parts = parts.left
    if not isinstance(parts, ast.List | ast.ListComp):
        return False
    made = ast.unparse(parts)
    name = ast.unparse(given)
    return f"_like({name})" in made or f"{name}.shape" in made or f"{name}.size()" in made


def _levels(known: ProjectFacts, gather: Call) -> bool:
    """Whether the function pads, cuts, or asks for the lengths first."""
    before = [each for each in known.inside(gather.fact.function) if each is not gather]
    if any(word in each.fact.name.lower() for each in before for word in _LEVELS):
        return True
    return any(
        each.fact.name in _GATHERS and each.fact.order < gather.fact.order and "size" in each.fact.text.lower()
        for each in before
    )


@rule(id="COD124", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def ragged_gather(seen: EvidenceSet) -> Findings:
    """`all_gather` is given tensors whose length depends on what each rank found in its data.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist

    def hard_examples(losses, limit):
        hard = losses[losses > limit]
        parts = [torch.zeros_like(hard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, hard)
        return torch.cat(parts)
    ```

    ## Why it happens
    What a rank receives must be as long as what the others gave. Another length on one rank is not always noticed:
    with NCCL the ranks wait for each other for ever, or what they receive is cut or full of foreign numbers.

    ## How we know
    The last thing that the variable was given, on every path, selects by the values: a mask from a comparison,
    `nonzero`, `unique`, `masked_select`, or `generate`. The function neither pads nor exchanges lengths.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def hard_examples(losses, limit):
        hard = losses[losses > limit]
        parts = [None for _ in range(dist.get_world_size())]
        dist.all_gather_object(parts, hard.cpu())
        return torch.cat(parts)
    ```

    ## When this is wrong
    When the data makes all ranks keep equally many.
    """
    known, trees = program(seen), sources(seen)
    for each in known.calls(*_GATHERS):
        flow = trees.flow(each)
        call = flow.call_at(each) if flow is not None else None
        if flow is None or call is None or _levels(known, each):
            continue
        name, position = _GATHERS[each.fact.name]
        given = next((word.value for word in call.keywords if word.arg == name), None)
        if given is None and len(call.args) > position:
            given = call.args[position]
        if given is None:
            continue
        why = _selects(flow, given, each.origin.line or 0) or _handed_in(known, trees, each)
        if why is None:
            continue
        if each.fact.name == "torch.distributed.all_gather" and not _receives_alike(flow, call, given):
            continue
        yield Found(
            title=f"{each.fact.method} is given a tensor whose length differs by rank",
            because=f"`{ast.unparse(given)}` comes from {why[1]}: {why[0]}; what is received must be as long on"
            " all ranks",
            evidence=(each,),
            fixes=(Fix(do="gather the lengths first and pad to the largest, or use all_gather_object"),),
        )
