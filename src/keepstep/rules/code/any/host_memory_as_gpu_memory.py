# SPDX-License-Identifier: Apache-2.0
"""COD005: host memory is reported as the GPU's."""

from __future__ import annotations

from typing import Any

from keepstep.model.facts import CodeAssigned, CodeCall
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Severity,
    lazy_pattern,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, program

_HOST = ("psutil.", "resource.getrusage")
_WORDS = ("psutil", "getrusage")
_OUTPUT = ("print", "info", "debug", "warning", "log", "add_scalar", "write")
_OF_GPU = lazy_pattern(
    r"(?i)(?:gpu|cuda|vram|device)[ _-]?mem|mem\w*[ _-](?:gpu|cuda)"
    r"|(?:gpu|cuda|vram)[ _-](?:used|mb|gb|usage|util(?:ization|isation)?|percent|load)",
    most=500,
)


_OF_DEVICE = lazy_pattern(
    r"(?i)torch\.cuda\.|pynvml|nvml\w*\(|nvidia|memory_stats\(|max_memory|memory_allocated", most=500
)


_OF_HOST = lazy_pattern(r"(?i)(?<![a-z])(?:cpu|host|ram|rss|system)(?![a-z])", most=500)


def _is_of_both(text: str) -> bool:
    """Whether the GPU's own figure stands beside the host's."""
    return bool(_OF_DEVICE.search(text))


def _is_returned(known: ProjectFacts, call: Call) -> bool:
    """Whether a function returns what the call measured."""
    function = known.functions.get(call.fact.function)
    return function is not None and any(made.startswith(call.fact.name) for made in function.fact.returns)


def _found(place: Evidence[Any], *measured: str) -> Found:
    of_cpu = any("cpu_" in each for each in measured)
    what = "use of CPUs" if of_cpu else "memory"
    return Found(
        title=f"the host's {what} is reported as the GPU's",
        because="psutil and resource measure the host; nothing of the GPU is in this figure",
        evidence=(place,),
        fixes=(Fix(do="use torch.cuda.memory_allocated() or the framework's own figures, or call it host memory"),),
    )


@rule(
    id="COD005",
    cause=Cause.RESOURCE_GPU_OOM,
    needs=(CodeCall, CodeAssigned),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def host_memory_as_gpu_memory(seen: EvidenceSet) -> Findings:
    """A figure of the host's memory is reported as that of the GPU.

    ## What it looks like
    ```python
    import psutil

    def report(step):
        gpu_memory = psutil.virtual_memory().used
        print(step, gpu_memory)
    ```

    ## Why it happens
    psutil and `resource` know only about the host. A figure that looks harmless hides that the GPU is about to run
    out of memory.

    ## How we know
    What psutil or `resource` returns goes into a variable, or into a line of output, that is about the GPU's memory
    or use, and not about the host's too.

    ## What to do
    ```python
    import torch

    def report(step):
        gpu_memory = torch.cuda.memory_allocated()
        print(step, gpu_memory)
    ```

    ## When this is wrong
    When the machine has one memory for both, and that is meant.
    """
    known = program(seen)
    for each in known.calls_near(*_WORDS):
        fact = each.fact
        is_host = fact.name.startswith(_HOST)
        if _is_of_both(fact.text):
            continue
        given = [part for each in fact.arguments for part in (each.value.made, *each.value.parts)]
        printed = fact.method in _OUTPUT and any(part.startswith(_HOST) for part in given)
        returned = is_host and _OF_GPU.search(fact.function.rpartition(".")[2]) and _is_returned(known, each)
        told = printed and _OF_GPU.search(fact.text) and not _OF_HOST.search(fact.text)
        if (is_host and _OF_GPU.search(fact.assigned)) or told or returned:
            yield _found(each, *([fact.name] if is_host else given))
    for assigned in known.assigned_near(*_WORDS):
        value = assigned.fact.value
        if any(part.startswith(_HOST) for part in (value.made, *value.parts)) and _OF_GPU.search(assigned.fact.target):
            yield _found(assigned, value.made, *value.parts)
