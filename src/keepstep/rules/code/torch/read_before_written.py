# SPDX-License-Identifier: Apache-2.0
"""COD128: ranks read what rank 0 may not have written yet."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeBlock, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import DDP, FSDP, INIT

_WRITES = {
    "torch.save": ("f", 1),
    "numpy.save": ("file", 0),
    "numpy.savez": ("file", 0),
    "urllib.request.urlretrieve": ("filename", 1),
    "torch.hub.download_url_to_file": ("dst", 1),
    "shutil.copy": ("dst", 1),
    "shutil.copyfile": ("dst", 1),
    "shutil.copytree": ("dst", 1),
}
_METHODS_WRITE = {
    "save_pretrained": ("save_directory", 0),
    "to_csv": ("path", 0),
    "to_parquet": ("path", 0),
    "save_to_disk": ("path", 0),
}
_READS = {
    "torch.load": ("f", 0),
    "numpy.load": ("file", 0),
    "numpy.memmap": ("filename", 0),
    "open": ("file", 0),
    "pandas.read_csv": ("path", 0),
    "pandas.read_parquet": ("path", 0),
    "datasets.load_from_disk": ("path", 0),
    "os.listdir": ("path", 0),
}
_METHODS_READ = {"from_pretrained": ("path", 0), "load_from_disk": ("path", 0)}
_MEETINGS = (
    *("barrier", "reduce", "gather", "broadcast", "sync", "wait", "rendezvous", "all_to_all", "scatter", "join"),
    *("main_process_first", "zero_first", "rank0_first", "rank_zero_first", "prepare"),
)


def _path(call: Call, by_name: dict[str, tuple[str, int]], by_method: dict[str, tuple[str, int]]) -> Value | None:
    """The path that a call writes or reads, if it is one of these."""
    place = by_name.get(call.fact.name) or by_method.get(call.fact.method)
    return call.fact.argument(*place) if place is not None else None


def _own_blocks(call: Call) -> list[CodeBlock]:
    return [each for each in call.fact.within if each.kind == "if" and each.ranked]


def _meets(known: ProjectFacts, call: Call) -> bool:
    """Whether ranks may wait for each other in a call: by its name, in what it wraps, or somewhere in what it calls."""
    name = call.fact.name.lower()
    if any(word in name for word in _MEETINGS) or call.fact.name in (DDP, FSDP, INIT) or name.startswith("deepspeed."):
        return True
    if name.endswith(".__call__") or "backward" in name:
        return True  # a wrapped model may
    return bool(call.fact.target) and _leads_to_meeting(known, call.fact.target, set())


def _leads_to_meeting(known: ProjectFacts, function: str, asked: set[str]) -> bool:
    if function in asked or len(asked) > 60:
        return len(asked) > 60
    asked.add(function)
    for _, name, target in known.aims_inside(function):
        if any(word in name.lower() for word in _MEETINGS):
            return True
        if target and _leads_to_meeting(known, target, asked):
            return True
    return False


def _reading(known: ProjectFacts, write: Call, path: Value) -> Call | None:
    """The first call that reads the same path on all ranks, if nothing before it may be waited in."""
    condition = _own_blocks(write)[0]
    others = [each for each in write.fact.within if each is not condition]
    for each in known.inside(write.fact.function):
        if each.fact.order <= write.fact.order:
            continue
        if condition in each.fact.within:
            if _meets(known, each):
                return None  # the others may wait for it before the condition
            continue
        if any(block.line == condition.line for block in each.fact.within):
            return None  # the other side of the condition: those ranks have a way of their own
        if _meets(known, each):
            return None
        read = _path(each, _READS, _METHODS_READ)
        mode = each.fact.argument("mode", 1) if each.fact.name == "open" else None
        if mode is not None and mode.literal not in ("'r'", "'rb'"):
            continue
        if read is None or read.text != path.text or read.ranked:
            continue
        is_on_all = not any(block.ranked for block in each.fact.within)
        return each if is_on_all and all(block in each.fact.within for block in others) else None
    return None


@rule(id="COD128", cause=Cause.SYNC_RACE_ON_SHARED_STATE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def read_before_written(seen: EvidenceSet) -> Findings:
    """One rank writes a file, and the others read it without waiting for it.

    ## What it looks like
    ```python
    import torch
    import torch.distributed as dist

    def start(model, path):
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
        model.load_state_dict(torch.load(path, map_location="cpu"))
    ```

    ## Why it happens
    The other ranks skip the condition and come to the reading at once. They find no file, an old one, or half of a
    new one.

    ## How we know
    The call that writes is under a condition of the rank, the call that reads the same path is under none, and
    nothing between them may be waited in: no collective, no wrapped model, no function that leads to one.

    ## What to do
    ```python
    import torch
    import torch.distributed as dist

    def start(model, path):
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
        dist.barrier()
        model.load_state_dict(torch.load(path, map_location="cpu"))
    ```

    ## When this is wrong
    When something else holds the other ranks back, such as a lock on the file.
    """
    known = program(seen)
    methods = known.methods(*_METHODS_WRITE)
    for each in (*known.calls(*_WRITES), *methods):
        path = _path(each, _WRITES, _METHODS_WRITE)
        conditions = _own_blocks(each)
        if path is None or path.ranked or len(conditions) != 1:
            continue
        read = _reading(known, each, path)
        if read is None:
            continue
        yield Found(
            title=f"ranks read {path.text} without waiting for the one that writes it",
            because=f"under `{conditions[0].text}` (line {conditions[0].line}) some ranks write `{path.text}`; all of"
            f" them read it in line {read.origin.line}, and nothing in between makes them wait",
            evidence=(read, each),
            fixes=(Fix(do="let all ranks meet after the writing", code="torch.distributed.barrier()"),),
        )
