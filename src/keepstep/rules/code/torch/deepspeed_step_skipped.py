# SPDX-License-Identifier: Apache-2.0
"""COD125: the step of a DeepSpeed engine is under a condition."""

from __future__ import annotations

import re

from keepstep.rules.api import (
    Cause,
    CodeBlock,
    CodeCall,
    Confidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    lazy_pattern,
    rule,
)
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.torch._sources import sources

_ENGINE = "deepspeed.initialize[0]"
_EVERY = lazy_pattern(r"%\s*[\w.()\[\]'\"]+\s*(?:==|!=)", most=200)
_COUNTED = re.compile(rb"""["']gradient_accumulation_steps["']\]?\s*[:=]\s*([^,}\n#]+)""")
_OWN_DATA = lazy_pattern(r"\bis(?:nan|inf|finite)\(", most=200)
_AGREES = ("all_reduce", "reduce", "all_gather", "broadcast", "gather", "any_rank", "all_gather_object")


def _inner(call: Call) -> list[CodeBlock]:
    """The conditions within the innermost loop around it."""
    around = list(call.fact.within)
    loops = [place for place, each in enumerate(around) if each.kind in ("for", "while")]
    return [each for each in around[loops[-1] + 1 :] if each.kind in ("if", "else")] if loops else []


def _passes_more_often(known: ProjectFacts, step: Call) -> bool:
    """Whether the backward pass of the engine stands in the same loop, but not under the condition."""
    loops = blocks(step, "for", "while")
    condition = _inner(step)[0]
    return any(
        each.fact.name == f"{_ENGINE}.backward" and loops[-1] in each.fact.within and condition not in each.fact.within
        for each in known.inside(step.fact.function)
    )


def _own_count(seen: EvidenceSet, call: Call) -> str:
    """Over how many passes the program tells DeepSpeed to accumulate, as it is written; empty: over one, or unknown."""
    known = program(seen)
    said = [each for path in known.near(call) for each in _COUNTED.findall(sources(seen).text(path))]
    values = {each.decode("utf-8", "replace").strip() for each in said}
    return values.pop() if len(values) == 1 and not values & {"1", '"auto"', "'auto'"} else ""


def _why(seen: EvidenceSet, known: ProjectFacts, call: Call) -> tuple[str, CodeBlock] | None:
    for block in _inner(call):
        is_every = (
            block.kind == "if"
            and call.fact.method == "step"
            and _EVERY.search(block.text)
            and _passes_more_often(known, call)
        )
        if is_every and (own := _own_count(seen, call)):
            return (
                f"DeepSpeed has gradient_accumulation_steps = {own}, too, and counts the calls of step(): the two"
                " multiply",
                block,
            )
        agreed = any(each.fact.method in _AGREES for each in known.inside(call.fact.function))
        if _OWN_DATA.search(block.text) and not agreed:
            return "each rank looks at its own loss; the ranks that go in wait for those that do not", block
    return None


@rule(id="COD125", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def deepspeed_step_skipped(seen: EvidenceSet) -> Findings:
    """`engine.step()` of DeepSpeed is not called after every backward pass.

    ## What it looks like
    ```python
    import deepspeed

    def train(net, loader, every):
        config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": every}
        engine, _, _, _ = deepspeed.initialize(model=net, config=config)
        for number, batch in enumerate(loader):
            engine.backward(engine(batch).sum())
            if (number + 1) % every == 0:
                engine.step()
    ```

    ## Why it happens
    DeepSpeed accumulates by itself: `gradient_accumulation_steps` of its configuration says how often, and it
    counts the calls of `step()`. If the program steps every N turns, too, an update comes every N times N turns. If
    the condition looks at the rank's own loss, ranks part, and wait for each other in the next collective.

    ## How we know
    The engine comes from `deepspeed.initialize`. Its step is under a condition of the loop: every so many turns,
    while the program gives DeepSpeed a number of steps other than 1 and the backward pass is not under it; or where
    this rank's loss is finite, while nothing in the function lets the ranks agree.

    ## What to do
    ```python
    import deepspeed

    def train(net, loader, every):
        config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": every}
        engine, _, _, _ = deepspeed.initialize(model=net, config=config)
        for batch in loader:
            engine.backward(engine(batch).sum())
            engine.step()
    ```

    ## When this is wrong
    When the loss is equal on all ranks, or the number that DeepSpeed is given is 1 in the end.
    """
    known = program(seen)
    for each in known.calls(f"{_ENGINE}.step", f"{_ENGINE}.backward"):
        why = _why(seen, known, each)
        if why is None:
            continue
        yield Found(
            title=f"{each.fact.method}() of a DeepSpeed engine is skipped in some turns",
            because=f"it is under `{why[1].text}` (line {why[1].line}); {why[0]}",
            evidence=(each,),
            fixes=(
                Fix(
                    do="call backward() and step() for every batch, and give DeepSpeed the number in its configuration",
                    code='config["gradient_accumulation_steps"] = 4',
                ),
            ),
        )
