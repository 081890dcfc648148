# SPDX-License-Identifier: Apache-2.0
"""COD008: one rank repeats a collective alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code._steps import COLLECTIVES, is_tried_again

_RETRY = re.compile(r"(?i)retr|attempt|tries")


def _is_retried(known: ProjectFacts, call: Call) -> bool:
    """In a ``try`` that a loop repeats, or in a function named after retries or decorated by them."""
    function = known.functions.get(call.fact.function)
    if function is not None and any(_RETRY.search(each.rpartition(".")[2]) for each in function.fact.decorators):
        return True
    name = call.fact.function.rpartition(".")[2]
    tried, loops = blocks(call, "try"), blocks(call, "for", "while")
    is_inside = bool(tried and loops and loops[-1].line < tried[-1].line)
    named = _RETRY.search(name) or any(_RETRY.search(each.text) for each in loops)
    return is_tried_again(call) or bool(is_inside and named)


def _issuing(known: ProjectFacts, functions: Iterable[str]) -> Iterator[Call]:
    """The collectives, and the calls of functions of the program that issue one."""
    yield from known.named(COLLECTIVES.__contains__)
    for function in functions:
        yield from (each for each in known.callers(function) if each.fact.name not in COLLECTIVES)


def _given_to_retry(known: ProjectFacts, functions: Collection[str]) -> Iterator[Call]:
    """`keepstep.retry` or `microbatches` of such a function: a rank inside a collective hears no other."""
    for each in (*known.calls("keepstep.retry"), *known.calls("keepstep.microbatches")):
        function = each.fact.argument("function", 0)
        if function is not None and function.target in functions:
            yield each


def _is_repeated(known: ProjectFacts, call: Call) -> bool:
    """Whether a handler calls what was tried: the same collective, or a function of the program in the same way."""
    handlers = blocks(call, "except")
    if not handlers:
        return False
    tried = [
        each
        for handler in known.handlers
        if handler.fact.function == call.fact.function and handler.origin.line == handlers[-1].line
        for each in known.tried(handler)
    ]
    if call.fact.name in COLLECTIVES:
        return any(each.fact.name == call.fact.name for each in tried)
    return any(each.fact.target == call.fact.target and each.fact.text == call.fact.text for each in tried)


@rule(id="COD008", cause=Cause.SYNC_COLLECTIVE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def collective_retried(seen: EvidenceSet) -> Findings:
    """A collective is tried again by the rank on which it failed.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def reduce_with_retries(tensor):
        for attempt in range(3):
            try:
                dist.all_reduce(tensor)
                return tensor
            except RuntimeError:
                continue
    ```

    ## Why it happens
    The others have finished the collective, or wait in the next one. The repeated one meets another of theirs:
    wrong numbers, or a hang. After a failure the group cannot be used any more.

    ## How we know
    The collective stands in a `try` inside a loop that counts attempts, once more in the `except`, or in a function
    that `keepstep.retry` or `keepstep.microbatches` calls.

    ## What to do
    ```python
    import keepstep
    import torch.distributed as dist

    def reduce_once(load):
        tensor = keepstep.retry(load, together=True)  # all ranks have theirs before any goes on
        dist.all_reduce(tensor)
        return tensor
    ```

    ## When this is wrong
    When all ranks are sure to fail together, and the group is made anew.
    """
    known = program(seen)
    issued = known.named(COLLECTIVES.__contains__)
    functions = dict.fromkeys(each.fact.function for each in issued if not blocks(each, "if", "else"))
    retried = (each for each in _issuing(known, functions) if _is_repeated(known, each) or _is_retried(known, each))
    for each in (*retried, *_given_to_retry(known, functions)):
        yield Found(
            title="a rank repeats a collective that failed on it",
            because=f"`{each.fact.text}` is issued again by the rank on which it failed; by then the others are"
            " elsewhere",
            evidence=(each,),
            fixes=(
                Fix(do="let the failure end the run, and restart all ranks"),
                Fix(
                    do="try again only what comes before the collective, on all ranks together",
                    code="value = keepstep.retry(load, path, together=True)",
                ),
            ),
        )
