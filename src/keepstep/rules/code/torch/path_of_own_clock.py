# SPDX-License-Identifier: Apache-2.0
"""COD129: each rank names a shared folder by its own clock."""

from __future__ import annotations

import ast
import re

from keepstep.rules.api import (
    Cause,
    CodeCall,
    CodeFunction,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Value,
    lazy_pattern,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, is_on_some_ranks, program
from keepstep.rules.code.torch._sources import sources

_SHARED = {
    "torch.distributed.checkpoint.save": ("checkpoint_id", None),
    "torch.distributed.checkpoint.async_save": ("checkpoint_id", None),
    "torch.distributed.checkpoint.FileSystemWriter": ("path", 0),
    "torch.distributed.checkpoint.filesystem.FileSystemWriter": ("path", 0),
    "deepspeed.initialize[0].save_checkpoint": ("save_dir", 0),
    "accelerate.Accelerator.save_state": ("output_dir", 0),
    "transformers.TrainingArguments": ("output_dir", 0),
}
"""Calls by which all ranks write into one folder."""
_CLOCK = lazy_pattern(r"\b(?:now|utcnow|today|localtime)\(|\btime\.time(?:_ns)?\(|\bstrftime\(", most=600)
_FORMAT = re.compile(r"strftime\(\s{0,8}[rf]{0,2}['\"]([^'\"]{0,80})['\"]|:(%[^}'\"]{0,80})\}")
_ATTRIBUTE = re.compile(r"\w\.(\w+)\b(?!\()")
_SECONDS = ("%S", "%s", "%f", "%c", "%X", "%T")


def _saves_whole(call: Call) -> bool:
    """Whether the Trainer of these settings shards nothing: then rank 0 writes the model alone."""
    ways = ("fsdp", "deepspeed")
    return call.fact.method == "TrainingArguments" and all(call.fact.argument(each) is None for each in ways)


def _reads_clock(text: str) -> bool:
    """Whether it holds the time to the second: the day and the hour are the same on all ranks, but for bad luck."""
    if not _CLOCK.search(text) or ".date()" in text:
        return False
    formats = ["".join(each) for each in _FORMAT.findall(text)]
    if formats:
        return any(second in each for each in formats for second in _SECONDS)
    return "strftime(" not in text and ":%" not in text


def _mentions(text: str, names: dict[str, int]) -> int | None:
    """The line on which the clock was read that one of these variables in a text holds the time of."""
    words = ((name, line) for name, line in names.items() if name in text)
    return next((line for name, line in words if re.search(rf"(?<![\w.'\"]){re.escape(name)}(?![\w'\"])", text)), None)


def _of_clock(seen: EvidenceSet, place: Call) -> dict[str, int]:
    """The variables that hold a time of this rank's clock where a call stands, with the line on which it was read."""
    flow = sources(seen).flow(place)
    found: dict[str, int] = {}
    on_some = {each.origin.line for each in program(seen).inside(place.fact.function) if is_on_some_ranks(each)}
    for name, value in flow.assignments(place.origin.line or 0) if flow is not None else ():
        text = ast.unparse(value)
        line = value.lineno if _reads_clock(text) else _mentions(text, found)
        if line is None or value.lineno in on_some:
            found.pop(name, None)
        else:
            found[name] = line
    return found


def _agree(known: ProjectFacts, function: str) -> bool:
    """Whether anything is handed from rank to rank there."""
    return any("broadcast" in name or "gather" in name for name in known.names_inside(function))


def _clock_of(seen: EvidenceSet, place: Call, path: Value) -> str:
    """Where the clock is read that a path holds the time of; empty: nowhere that is plain to see."""
    known, function = program(seen), place.fact.function
    if _agree(known, function):
        return ""
    if _reads_clock(path.text):
        return f"line {place.origin.line}"
    found = _mentions(path.text, _of_clock(seen, place))
    callers = known.callers(function)
    if found is None and path.ranked and (kept := _kept(known, place, path)):
        return kept
    if found is not None or len(callers) != 1 or _agree(known, callers[0].fact.function):
        return f"line {found}" if found is not None else ""
    parameters = [each for each in known.functions[function].fact.parameters if each not in ("self", "cls")]
    for position, name in enumerate(parameters):
        given = callers[0].fact.argument(name, position)
        if given is not None and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", path.text):
            found = _mentions(given.text, _of_clock(seen, callers[0]))
            return f"line {found}" if found is not None else ""
    return ""


def _kept(known: ProjectFacts, place: Call, path: Value) -> str:
    """Where an attribute that a path holds is made of the clock, in whichever file."""
    for name in _ATTRIBUTE.findall(path.text):
        for each in known.assigned_to(f".{name}"):
            if each.origin.source not in known.related(place) or not each.fact.target.endswith(f".{name}"):
                continue
            if any(block.ranked for block in each.fact.within) or _agree(known, each.fact.function):
                return ""
            value = each.fact.value
            made = [known.functions[part] for part in (value.made, *value.parts) if part in known.functions]
            texts = [value.text, *(_text_of(known, function) for function in made)]
            if value.ranked and any(_reads_clock(text) for text in texts):
                return f"{each.origin.source.rpartition('/')[2]}:{each.origin.line}"
    return ""


def _text_of(known: ProjectFacts, function: Evidence[CodeFunction]) -> str:
    lines = known.text(function.origin.source).split("\n")
    return " ".join(lines[(function.origin.line or 1) - 1 : function.fact.end])


@rule(id="COD129", cause=Cause.CHECKPOINT_CORRUPT_OR_MISSING, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def path_of_own_clock(seen: EvidenceSet) -> Findings:
    """A checkpoint that all ranks write has the time of each rank's own clock in its path.

    ## What it looks like
    ```python
    import time

    import torch.distributed.checkpoint as dcp

    def save(state):
        folder = f"runs/{int(time.time())}"
        dcp.save(state, checkpoint_id=folder)
    ```

    ## Why it happens
    Ranks come to the line at different moments, and hosts have different clocks. As soon as a second passes between
    two ranks, each of them writes its shards into a folder of its own: no folder holds the whole checkpoint.

    ## How we know
    The path of a save in which all ranks take part holds the time to the second. It was read on each rank, and
    nothing in that function hands it from one rank to the others.

    ## What to do
    ```python
    import time

    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    def save(state):
        name = [f"runs/{int(time.time())}"]
        dist.broadcast_object_list(name, src=0)
        dcp.save(state, checkpoint_id=name[0])
    ```

    ## When this is wrong
    When the path is made equal by code that was not read.
    """
    known = program(seen)
    for each in known.calls(*_SHARED):
        path = each.fact.argument(*_SHARED[each.fact.name])
        if path is None or is_on_some_ranks(each) or _saves_whole(each):
            continue
        clock = _clock_of(seen, each, path)
        if not clock:
            continue
        yield Found(
            title="each rank saves into a folder named by its own clock",
            because=f"`{path.text}` holds the time that each rank reads for itself ({clock});"
            f" {each.fact.method} needs one folder for all ranks",
            evidence=(each,),
            fixes=(
                Fix(
                    do="make the name on rank 0 and hand it to the others",
                    code="torch.distributed.broadcast_object_list(name, src=0)",
                ),
            ),
        )
