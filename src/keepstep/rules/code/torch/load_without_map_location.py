# SPDX-License-Identifier: Apache-2.0
"""COD108: every rank loads a checkpoint to the GPU that saved it."""

from __future__ import annotations

import re

from keepstep.model.facts import Value
from keepstep.rules.api import Cause, CodeCall, Confidence, Edit, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, is_on_some_ranks, program
from keepstep.rules.code._edits import replaced, with_argument
from keepstep.rules.code.torch._torch import FSDP, FULLY_SHARD, INIT, backend_of, runs_several_processes, uses_cuda

_NOT_ON_GPUS = re.compile(r"(?i)sched|scaler|sampler|data|loader|rng|stopp|tokeniz")
"""Who gets numbers, or keeps what it has on the CPU."""
_FROM_ELSEWHERE = re.compile(r"(?i)pre_?train|backbone|teacher|imagenet|\bmeta")
"""Files that somebody else published. Most were saved from a CPU."""


def _takers(known: ProjectFacts, load: Call) -> list[Call]:
    """The calls of ``load_state_dict`` that get what is loaded, itself or under another name."""
    names = {load.fact.assigned} if load.fact.assigned.isidentifier() else set()
    for each in known.assigned_in.get(load.fact.function, ()) if names else ():
        if each.fact.order > load.fact.order and each.fact.target.isidentifier() and _mentions(each.fact.value, names):
            names.add(each.fact.target)
    return [
        each
        for each in known.inside(load.fact.function)
        if each.fact.method == "load_state_dict"
        and any(load.fact.text in given.value.text or _mentions(given.value, names) for given in each.fact.arguments)
    ]


def _mentions(value: Value, names: set[str]) -> bool:
    return not names.isdisjoint(re.findall(r"\w+", value.text))


def _restores_what_was_on_a_gpu(known: ProjectFacts, load: Call) -> bool:
    """Whether a model or an optimizer gets it, and the program saves such files itself, not from the CPU."""
    path = load.fact.argument("f", 0)
    function = load.fact.function.rpartition(".")[2]
    if _FROM_ELSEWHERE.search(f"{path.text if path else ''} {load.fact.assigned} {function}"):
        return False
    takers = [each.fact.on for each in _takers(known, load)]
    if not any(on and not _NOT_ON_GPUS.search(on.text) and not on.made.startswith("torchvision.") for on in takers):
        return False
    if known.among(load, FSDP, FULLY_SHARD):  # whole states of sharded models are gathered on the CPU
        return False
    saves = known.among(load, "torch.save")
    beside = [each for save in saves for each in known.inside(save.fact.function)]
    return bool(saves) and not any(".cpu()" in each.fact.text for each in beside)


def _is_in_the_group(known: ProjectFacts, load: Call) -> bool:
    """Whether one function leads to it and to the forming of the group: so they are in one process."""
    leading = known.functions_that_lead_to(INIT)
    found, pending = {load.fact.function}, [load.fact.function]
    while pending:
        function = pending.pop()
        if function in leading:
            return True
        new = {each.fact.function for each in known.callers(function)} - found
        found |= new
        pending += new
    return False


def _is_on_cpus(known: ProjectFacts, load: Call) -> bool:
    """Whether the option for the backend names one of CPUs, or of other devices, unless the user says otherwise."""
    given = [(each, each.fact.argument("backend", 0)) for each in known.among(load, INIT)]
    return any(
        value is not None and value.literal is None and backend_of(each, known) in ("gloo", "ccl", "mpi")
        for each, value in given
    )


def _maps(call: Call) -> bool:
    return call.fact.name == "torch.load" and call.fact.argument("map_location", 1) is not None


def _edit(known: ProjectFacts, load: Call) -> Edit | None:
    """Only where ``load_state_dict`` gets what is loaded: it copies each tensor to where the model is."""
    text = load.fact.text
    given = [each for each in known.inside(load.fact.function) if each.fact.method == "load_state_dict"]
    if not any(argument.value.text.startswith(text) for each in given for argument in each.fact.arguments):
        return None
    where = load.fact.argument("map_location", 1)
    if where is not None:
        return replaced(known, load.origin.source, where, '"cpu"')
    return with_argument(known, load, 'map_location="cpu"')


@rule(
    id="COD108",
    cause=Cause.RESOURCE_GPU_OOM,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def load_without_map_location(seen: EvidenceSet) -> Findings:
    """`torch.load` without `map_location` in a program that runs one process per GPU.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist

    def resume(model, path, local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        model.load_state_dict(torch.load(path))

    def save(model, path):
        torch.save(model.state_dict(), path)
    ```

    ## Why it happens
    Tensors go back to the device that they were saved from, usually `cuda:0`: every rank puts a copy on GPU 0, which
    runs out of memory.

    ## How we know
    One function of the program leads to the call and to the forming of the process group. A model or an optimizer gets
    what is loaded, the program saves such files itself, never from the CPU, and the call says nothing about the device,
    or names the first GPU.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def resume(model, path, local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        model.load_state_dict(torch.load(path, map_location="cpu"))

    def save(model, path):
        torch.save(model.state_dict(), path)
    ```

    ## When this is wrong
    When the file holds no tensors, or only tensors that were on the CPU.
    """
    known = program(seen)
    for each in known.calls("torch.load"):
        names = {argument.name for argument in each.fact.arguments}
        where = each.fact.argument("map_location", 1)
        is_first = where is not None and (where.literal == "'cuda:0'" or where.made == "torch.device[cuda:0]")
        if (where is not None and not is_first) or "**" in names or is_on_some_ranks(each):
            continue
        if any(_maps(other) and other is not each for other in known.inside(each.fact.function)):
            continue
        if not runs_several_processes(known, each) or not uses_cuda(known, each) or _is_on_cpus(known, each):
            continue
        if not _is_in_the_group(known, each) or not (is_first or _restores_what_was_on_a_gpu(known, each)):
            continue
        yield Found(
            title="torch.load without map_location puts every rank's copy on the GPU that saved it",
            because="tensors return to the device they were saved from, so all ranks fill GPU 0",
            evidence=(each,),
            fixes=(Fix(do='give map_location="cpu", or the rank\'s own device', edit=_edit(known, each)),),
        )
