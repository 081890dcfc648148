# SPDX-License-Identifier: Apache-2.0
"""COD123: NCCL is given a tensor that lies on the CPU."""

from __future__ import annotations

import ast

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.torch._sources import sources
from keepstep.rules.code.torch._torch import INIT, backend_of

_TENSOR_AT = {
    **dict.fromkeys(("all_reduce", "broadcast", "reduce", "all_reduce_coalesced"), ("tensor", 0)),
    "all_gather": ("tensor", 1),
    "all_gather_into_tensor": ("input_tensor", 1),
    "reduce_scatter_tensor": ("input", 1),
    "send": ("tensor", 0),
    "recv": ("tensor", 0),
}
_MAKERS = frozenset("zeros ones empty full arange eye rand randn randint linspace FloatTensor LongTensor".split())
_OF_NUMBERS = ("tensor", "as_tensor")
_DEFAULTS = ("set_default_device", "set_default_tensor_type")


def _is_number(node: ast.expr) -> bool:
    """Whether it is surely no tensor: torch.tensor of a tensor stays where that is."""
    if isinstance(node, ast.List | ast.Constant):
        return True
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in ("len", "int", "float", "bool", "item", "time")
    return False


def _is_on_cpu(node: ast.expr) -> bool:
    """Whether it is a tensor that was made on the CPU, right there."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if not isinstance(node.func.value, ast.Name) or node.func.value.id != "torch":
        return False
    if any(each.arg in ("device", "out", None) for each in node.keywords):
        return False
    made = node.func.attr
    return made in _MAKERS or (made in _OF_NUMBERS and bool(node.args) and _is_number(node.args[0]))


def _is_all_nccl(known: ProjectFacts, place: Call) -> bool:
    """Whether all groups of the program are of NCCL, and tensors are made on the CPU by default."""
    groups = known.among(place, INIT)
    if not groups or any(backend_of(each) != "nccl" for each in groups):
        return False
    if known.paths_near("gloo") & known.related(place):
        return False  # which of the two it is, is decided when it runs
    return not known.methods_among(place, *_DEFAULTS) and not known.among(place, "torch.distributed.new_group")


@rule(id="COD123", cause=Cause.FRAMEWORK_UNSUPPORTED_COMBINATION, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def cpu_tensor_on_nccl(seen: EvidenceSet) -> Findings:
    """A collective of an NCCL group is given a tensor on the CPU.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist

    def count(loader, local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        total = torch.tensor([len(loader)])
        dist.all_reduce(total)
        return total
    ```

    ## Why it happens
    NCCL moves memory of GPUs only. The call fails: `Tensors must be CUDA and dense`, or `No backend type associated
    with device type cpu`. Where only some ranks come there, the others wait until their time-out.

    ## How we know
    The only backend that the program names is "nccl". The last thing that the variable was given before the
    collective, on every path, is a new tensor without a device, and no default device is set.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def count(loader, local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        total = torch.tensor([len(loader)], device=f"cuda:{local_rank}")
        dist.all_reduce(total)
        return total
    ```

    ## When this is wrong
    When the group is made elsewhere, with a backend for the CPU, too.
    """
    known, trees = program(seen), sources(seen)
    for each in known.calls(*(f"torch.distributed.{name}" for name in _TENSOR_AT)):
        if each.fact.argument("group") is not None or not _is_all_nccl(known, each):
            continue
        if any(
            "device" in block.text or "gloo" in block.text or "cpu" in block.text for block in blocks(each, *_AROUND)
        ):
            continue
        flow = trees.flow(each)
        call = flow.call_at(each) if flow is not None else None
        if flow is None or call is None:
            continue
        name, position = _TENSOR_AT[each.fact.method]
        given = next((word.value for word in call.keywords if word.arg == name), None)
        if given is None and len(call.args) > position:
            given = call.args[position]
        made = flow.origin(given, each.origin.line or 0) if given is not None else None
        if given is None or made is None or not _is_on_cpu(made):
            continue
        group = known.among(each, INIT)[0]
        yield Found(
            title=f"NCCL is given a tensor on the CPU ({each.fact.method})",
            because=f"`{ast.unparse(made)}` (line {made.lineno}) is on the CPU, and the group is made with"
            f" backend={backend_of(group)!r} (line {group.origin.line}), which moves memory of GPUs only",
            evidence=(each, group),
            fixes=(
                Fix(
                    do="make the tensor on the rank's own GPU, or let the group have gloo for the CPU, too",
                    code='init_process_group("cpu:gloo,cuda:nccl")',
                ),
            ),
        )


_AROUND = ("if", "else", "with")
