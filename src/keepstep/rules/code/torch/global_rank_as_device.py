# SPDX-License-Identifier: Apache-2.0
"""COD122: the number of a rank among all is used as the number of a GPU."""

from __future__ import annotations

import re
from dataclasses import replace

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.torch._torch import DDP, FSDP, INIT

_GLOBAL = {
    "torch.distributed.get_rank": "the rank among all processes",
    "horovod.rank": "the rank among all processes",
    "os.environ[RANK]": "the rank among all processes",
    "os.environ[SLURM_PROCID]": "the number of the task among all",
    "os.environ[OMPI_COMM_WORLD_RANK]": "the rank among all processes",
}
_ONE_HOST = (
    *("localhost", "127.0.0.1", "standalone", "CUDA_VISIBLE_DEVICES", "device_count"),
    *("spawn(", "Process(", "start_processes("),
)
_NUMBERED = re.compile(r"f[\"']cuda:\{[^{}]+\}[\"']$")
_LOCAL = ("local", "device_count", "nproc", "node")


def _index(call: Call) -> Value | None:
    """The number that a call takes for a GPU."""
    fact = call.fact
    device = fact.argument("type" if fact.name == "torch.device" else "device", 0)
    if device is not None and _NUMBERED.match(device.text) and len(device.parts) == 1:
        return replace(device, made=device.parts[0])
    if fact.name == "torch.device":
        return fact.argument("index", 1) if device is not None and device.literal == "'cuda'" else None
    return device


def _is_one_host(known: ProjectFacts, place: Call) -> bool:
    """Whether the program starts its own ranks on this host, meets on this host, or counts its GPUs."""
    return bool(known.paths_near(*_ONE_HOST) & known.near(place))


def _trains(known: ProjectFacts, place: Call) -> bool:
    """Whether the program trains: what only answers runs on one host, unless it says otherwise."""
    return bool(known.among(place, DDP, FSDP) or known.methods_among(place, "backward"))


@rule(
    id="COD122",
    cause=Cause.CONFIG_WORLD_SIZE_MISMATCH,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def global_rank_as_device(seen: EvidenceSet) -> Findings:
    """The GPU is chosen by the rank among all processes, not by that on this host.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def main(model):
        dist.init_process_group("nccl", init_method="env://")
        torch.cuda.set_device(dist.get_rank())
        return DistributedDataParallel(model.cuda())
    ```

    ## Why it happens
    Ranks are counted over all hosts, GPUs on each host from 0. On the second host of 8 GPUs the first rank is 8,
    and there is no GPU 8: `invalid device ordinal`.

    ## How we know
    The number of the device is `get_rank()` or `RANK` itself, the program trains, and nothing in it says that there is
    one host only: it spawns no ranks, meets at no address of this host, and counts no GPUs.

    ## What to do
    ```python
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def main(model):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", init_method="env://")
        return DistributedDataParallel(model.cuda())
    ```

    ## When this is wrong
    When the program is only ever started on one host.
    """
    known = program(seen)
    for each in known.calls("torch.cuda.set_device", "torch.device"):
        index = _index(each)
        if index is None or index.made not in _GLOBAL:
            continue
        around = " ".join(block.text.lower() for block in blocks(each, "if", "else"))
        if any(word in around for word in _LOCAL) or not known.among(each, INIT, "horovod.init"):
            continue
        ranks = [call for call in known.inside(each.fact.function) if call.fact.method == "get_rank"]
        if any(call.fact.arguments for call in ranks) or _is_one_host(known, each) or not _trains(known, each):
            continue
        yield Found(
            title="the rank among all hosts is used as the number of a GPU",
            because=f"`{index.text}` is {_GLOBAL[index.made]}; on the second host it is larger than any number of a GPU"
            " there",
            evidence=(each,),
            fixes=(Fix(do="use the rank on this host", code='torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'),),
        )
