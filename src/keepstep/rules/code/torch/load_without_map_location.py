# SPDX-License-Identifier: Apache-2.0
"""COD108: every rank loads a checkpoint to the GPU that saved it."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, Edit, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, is_on_some_ranks, program
from keepstep.rules.code._edits import replaced, with_argument
from keepstep.rules.code.torch._torch import INIT, backend_of, runs_several_processes, uses_cuda

_WORDS = ("checkpoint", "ckpt", "snapshot", "resume", "weights", "pretrained", "state_dict", "teacher", "model")


def _is_a_checkpoint(known: ProjectFacts, load: Call) -> bool:
    """Whether it holds a model, by its name or by what is done with it: data was mostly on the CPU."""
    path = load.fact.argument("f", 0)
    words = f"{path.text if path else ''} {load.fact.assigned}".lower()
    used = [each for each in known.inside(load.fact.function) if each.fact.method == "load_state_dict"]
    name = load.fact.assigned
    if path is not None and "meta" in path.text.lower() and not used:
        return False
    is_used = any(load.fact.text in each.fact.text or (name and name in each.fact.text) for each in used)
    return is_used or any(word in words for word in _WORDS)


def _holds_no_gpu_tensors(known: ProjectFacts, load: Call) -> bool:
    """Whether it is the state of a scheduler, which is numbers, or weights that torchvision publishes, on the CPU."""
    path = load.fact.argument("f", 0)
    words = f"{path.text if path else ''} {load.fact.assigned}".lower()
    if "sched" in words or "backbone" in words:
        return True
    takers = [
        each.fact.on
        for each in known.inside(load.fact.function)
        if each.fact.method == "load_state_dict"
        and any(given.value.text in (load.fact.text, load.fact.assigned) for given in each.fact.arguments)
    ]
    return bool(takers) and all(
        taker is not None and ("sched" in taker.text.lower() or taker.made.startswith("torchvision."))
        for taker in takers
    )


def _is_on_cpus(known: ProjectFacts, load: Call) -> bool:
    """Whether the option for the backend names one of CPUs, or of other devices, unless the user says otherwise."""
    given = [(each, each.fact.argument("backend", 0)) for each in known.among(load, INIT)]
    return any(
        value is not None and value.literal is None and backend_of(each, known) in ("gloo", "ccl", "mpi")
        for each, value in given
    )


def _is_never_called(known: ProjectFacts, load: Call) -> bool:
    """Whether no related file names its function a second time, and it forms no group by itself."""
    name = load.fact.function.rpartition(".")[2]
    if not name.isidentifier() or name.startswith("__") or load.fact.function not in known.functions:
        return False
    if known.callers(load.fact.function) or any(each.fact.name == INIT for each in known.inside(load.fact.function)):
        return False
    return sum(len(re.findall(rf"\b{name}\b", known.text(path))) for path in known.related(load)) < 2


def _is_of_another_program(known: ProjectFacts, load: Call) -> bool:
    """Whether it stands in the ``main`` of a script that forms no group, though one that does imports from it."""
    is_main = load.fact.function.rpartition(".")[2] == "main"
    return is_main and load.origin.source not in known.files_that_lead_to(INIT)


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
    ```

    ## Why it happens
    Tensors go back to the device that they were saved from, usually `cuda:0`: every rank puts a copy on GPU 0, which
    runs out of memory.

    ## How we know
    The program forms a process group and trains on GPUs, and the call says nothing about the device. The file is not
    the state of a scheduler, nor one for a torchvision model, and the function is called.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def resume(model, path, local_rank):
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        model.load_state_dict(torch.load(path, map_location="cpu"))
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
        if not _is_a_checkpoint(known, each) or _is_of_another_program(known, each):
            continue
        if (
            any(_maps(other) and other is not each for other in known.inside(each.fact.function))
            or "BytesIO" in each.fact.text
        ):
            continue
        if not runs_several_processes(known, each) or not uses_cuda(known, each):
            continue
        if _holds_no_gpu_tensors(known, each) or _is_on_cpus(known, each) or _is_never_called(known, each):
            continue
        yield Found(
            title="torch.load without map_location puts every rank's copy on the GPU that saved it",
            because="tensors return to the device they were saved from, so all ranks fill GPU 0",
            evidence=(each,),
            fixes=(Fix(do='give map_location="cpu", or the rank\'s own device', edit=_edit(known, each)),),
        )
