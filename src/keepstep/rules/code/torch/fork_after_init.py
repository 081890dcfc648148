# SPDX-License-Identifier: Apache-2.0
"""COD113: a process is forked while threads or a GPU are in use."""

from __future__ import annotations

import re

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._iterable import workers_of
from keepstep.rules.code.torch._torch import INIT, LOADER, backend_of

_STARTS = (
    *("multiprocessing.Process", "multiprocessing.Pool", "multiprocessing.pool.Pool"),
    *("torch.multiprocessing.Process", "torch.multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor"),
)
_IN_CONTEXT = tuple(
    f"{library}.get_context.{name}"
    for library in ("multiprocessing", "torch.multiprocessing")
    for name in ("Process", "Pool")
)


def _is_on_gpu(call: Call) -> bool:
    """Whether it puts something on a GPU, or makes it there."""
    if call.fact.method == "cuda" or call.fact.name in ("torch.cuda.init", "torch.cuda.set_device"):
        return True
    where = call.fact.argument("device", 0 if call.fact.method == "to" else None)
    return where is not None and (
        (where.literal or "").startswith(("'cuda", '"cuda')) or where.made.startswith("torch.device[cuda")
    )


def _uses_gpu(known: ProjectFacts, function: str) -> bool:
    """Whether a function moves something to a GPU."""
    return any(
        _is_on_gpu(each) or (each.fact.method == "to" and "device" in each.fact.text) for each in known.inside(function)
    )


def _works_on_gpu_in(known: ProjectFacts, function: str) -> bool:
    """Whether a function that workers call uses a GPU, or surely does so in a method that it calls."""
    called = {target for _, _, target in known.aims_inside(function) if target}
    return _uses_gpu(known, function) or any(_is_on_gpu(each) for name in called for each in known.inside(name))


def _forks(known: ProjectFacts, start: Call) -> bool:
    """Whether the process is forked: by default, or because the program says so."""
    if start.fact.argument("mp_context") is not None:
        return False
    if start.fact.name in _IN_CONTEXT:
        variable = start.fact.on.text if start.fact.on is not None else ""
        made = [each for each in known.in_file(start) if each.fact.method == "get_context"]
        return any(
            each.fact.arguments[0].value.literal == "'fork'"
            for each in made
            if each.fact.arguments and (each.fact.assigned == variable or each.fact.text == variable)
        )
    methods = [call.fact.argument("method", 0) for call in known.methods_among(start, "set_start_method")]
    if methods:
        return all(each is not None and each.literal == "'fork'" for each in methods)
    return not known.methods_among(start, "get_context")


def _works_on_gpu(known: ProjectFacts, start: Call) -> bool:
    """Whether the new process is given something on a GPU, or a function that uses one."""
    given = [each.value for each in start.fact.arguments]
    if any(value.target and _uses_gpu(known, value.target) for value in given):
        return True
    on_gpu = {each.fact.assigned for each in known.inside(start.fact.function) if _is_on_gpu(each)} - {""}
    return any(re.search(rf"(?<![\w.]){re.escape(name)}\b", value.text) for name in on_gpu for value in given)


def _found(place: Call, why: str) -> Found:
    return Found(
        title="a process is forked where that is not safe",
        because=f"{why}; the child can hang in a lock that nobody will release, or fail at its first use of the GPU",
        evidence=(place,),
        fixes=(Fix(do='start a new program, or use the start method "spawn" or "forkserver"'),),
    )


@rule(
    id="COD113",
    cause=Cause.SYNC_MULTIPLE_THREADS_OR_FORK,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def fork_after_init(seen: EvidenceSet) -> Findings:
    """A process is forked after CUDA, a process group or a thread was started.

    ## What it looks like
    ```python
    import os
    import threading

    def train(step):
        threading.Thread(target=report, daemon=True).start()
        if os.fork() == 0:
            step()
            os._exit(0)
    ```

    ## Why it happens
    fork copies the memory, but only one thread. A lock that another thread holds at that moment stays locked in the
    child for ever, and CUDA cannot be used in a forked child at all.

    ## How we know
    A fork, or a DataLoader whose dataset uses a GPU in its workers, comes after the initialisation.

    ## What to do
    ```python
    import subprocess
    import threading

    def train(step):
        threading.Thread(target=report, daemon=True).start()
        subprocess.run(["python", "step.py"])
    ```

    ## When this is wrong
    When the child runs another program at once.
    """
    known = program(seen)
    for each in known.calls("os.fork"):
        if known.among(each, "threading.Thread", INIT, "torch.cuda.set_device"):
            yield _found(each, "the program has threads: torch.distributed starts some, too")
    for each in known.calls(*_STARTS, *_IN_CONTEXT):
        before = [call for call in known.inside(each.fact.function) if call.fact.order < each.fact.order]
        is_bound = any(
            call.fact.name in ("torch.cuda.set_device", "torch.cuda.init") or backend_of(call) == "nccl"
            for call in before
        )
        on_gpu = is_bound or (any(_is_on_gpu(call) for call in before) and _works_on_gpu(known, each))
        if on_gpu and _forks(known, each):
            yield _found(each, "CUDA was initialised before, and this forks")
    for each in known.calls(LOADER):
        data = each.fact.argument("dataset", 0)
        if not workers_of(known, each) or each.fact.argument("multiprocessing_context") is not None:
            continue
        collate = each.fact.argument("collate_fn", 7)
        reads = [f"{data.made}.{name}" for name in ("__getitem__", "__iter__")] if data is not None else []
        reads += [collate.target] if collate is not None and collate.target else []
        if any(_works_on_gpu_in(known, name) for name in reads) and not known.methods_among(each, "set_start_method"):
            yield _found(each, "its workers are forked, and the dataset uses a GPU in them")
