# SPDX-License-Identifier: Apache-2.0
"""COD113: a process is forked while threads or a GPU are in use."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.code import CodeCall
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import Call, Program, program
from keepstep.rules.code.torch._torch import INIT, LOADER, backend_of


def _uses_gpu(known: Program, dataset: str) -> bool:
    """Whether reading an item moves something to a GPU."""
    return any(
        each.fact.method == "cuda" or (each.fact.method == "to" and "device" in each.fact.text)
        for each in known.inside(f"{dataset}.__getitem__")
    )


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
def fork_after_init(seen: EvidenceSet) -> Iterator[Found]:
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
    for each in known.calls("multiprocessing.Process", "multiprocessing.Pool", "torch.multiprocessing.Process"):
        before = [call for call in known.inside(each.fact.function) if call.fact.order < each.fact.order]
        on_gpu = any(call.fact.name == "torch.cuda.set_device" or backend_of(call) == "nccl" for call in before)
        if on_gpu and not known.methods_among(each, "set_start_method", "get_context"):
            yield _found(each, "CUDA was initialised before, and Linux forks by default")
    for each in known.calls(LOADER):
        workers, data = each.fact.argument("num_workers", 5), each.fact.argument("dataset", 0)
        if (
            workers is None
            or workers.literal in (None, "0")
            or each.fact.argument("multiprocessing_context") is not None
        ):
            continue
        if data is not None and _uses_gpu(known, data.made) and not known.methods_among(each, "set_start_method"):
            yield _found(each, "its workers are forked, and the dataset uses a GPU in them")
