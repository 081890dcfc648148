# SPDX-License-Identifier: Apache-2.0
"""COD301: a device is used before jax.distributed.initialize."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from keepstep.rules.api import Cause, CodeBlock, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.jax._jax import DEVICE_USES, INIT

_DEEPEST = 3
_FARTHEST = 2
"""Callers of the function that initialises: what is farther away may do so under conditions of its own."""


def _early(known: ProjectFacts) -> Iterator[tuple[Call, Call]]:
    """Uses of a device that come before ``initialize``, each once, with the call that comes too late."""
    starts = {each.fact.function for each in known.calls(INIT)}
    for _ in range(_FARTHEST):
        starts |= {each.fact.function for name in starts for each in known.callers(name)}
    found: dict[tuple[str, int | None], tuple[Call, Call]] = {}
    at_once = cache(lambda function: list(_unconditional(known, function)))
    for function in sorted(starts):
        inits = [each for each in known.inside(function) if each.fact.name == INIT or each.fact.target in starts]
        inits = [each for each in inits if each.fact.target != function]
        for init in inits:
            if _is_alone(init):
                continue
            first = next(_in_function(known, init, inits), None)
            for use in (*([first] if first else []), *_at_import(known, init, starts, at_once)):
                found.setdefault((use.origin.source, use.origin.line), (use, init))
    yield from found.values()


def _is_alone(init: Call) -> bool:
    """Whether it says that there is one process only."""
    number = init.fact.argument("num_processes", 1)
    return number is not None and number.literal == "1"


def _in_function(known: ProjectFacts, init: Call, inits: list[Call]) -> Iterator[Call]:
    """The uses above it in the same function, unless something initialises above them."""
    for use in known.inside(init.fact.function):
        if use.fact.order >= init.fact.order or any(each.fact.order <= use.fact.order for each in inits):
            return
        if init.fact.text in use.fact.text:
            continue  # it is an argument, so it comes first
        if set(_conditions(use)) <= set(_conditions(init)) and _uses_device(known, use, _DEEPEST):
            yield use


def _at_import(
    known: ProjectFacts, init: Call, starts: set[str], at_once: Callable[[str], list[Call]]
) -> Iterator[Call]:
    """The uses that run before it because the file, or one that it imports, is imported."""
    path = init.origin.source
    is_inside = not init.fact.function.endswith(".<module>")
    whole = f"{known.files[path].module}.<module>"
    if is_inside and whole not in starts:
        yield from at_once(whole)
    for other in sorted(known.imported_before(path, None if is_inside else init.origin.line)):
        yield from at_once(f"{known.files[other].module}.<module>")


def _unconditional(known: ProjectFacts, function: str) -> Iterator[Call]:
    for use in known.inside(function):
        if not _conditions(use) and _uses_device(known, use, _DEEPEST):
            yield use


def _uses_device(known: ProjectFacts, call: Call, depth: int) -> bool:
    """Whether a call, or a function of the program that it calls, starts the backend in any case."""
    if call.fact.name in DEVICE_USES:
        return True
    if not call.fact.target or not depth:
        return False
    inner = known.inside(call.fact.target)
    if any(each.fact.name == INIT for each in inner):
        return False
    return any(not _conditions(each) and _uses_device(known, each, depth - 1) for each in inner)


def _conditions(call: Call) -> list[CodeBlock]:
    return blocks(call, "if", "else", "except")


def _where(use: Call, init: Call) -> str:
    same = use.origin.source == init.origin.source
    return f"line {init.origin.line}" if same else f"{init.origin.source}:{init.origin.line}"


@rule(id="COD301", cause=Cause.CONFIG_TRAINS_ALONE, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def initialize_too_late(seen: EvidenceSet) -> Findings:
    """A device is used before `jax.distributed.initialize`.

    ## What it looks like
    ```python
    import jax

    def main():
        print(jax.devices())
        jax.distributed.initialize()
    ```

    ## Why it happens
    The first use of a device starts the backend, and the backend learns then which processes there are.
    `initialize` comes too late after that: it raises, or the process has already taken itself for the only one.

    ## How we know
    A call that starts the backend (`jax.devices`, `jax.process_index`, a key, an array) stands before `initialize`
    in the same function, in a function that is called before it, or in code that runs when a file is imported.

    ## What to do
    ```python
    import jax

    def main():
        jax.distributed.initialize()
        print(jax.devices())
    ```

    ## When this is wrong
    When the line is not reached by the program that calls `initialize`.
    """
    known = program(seen)
    for use, start in _early(known):
        yield Found(
            title="a device is used before jax.distributed.initialize",
            because=f"`{use.fact.text}` starts the backend; `{start.fact.text}` ({_where(use, start)}) comes too late"
            " after that",
            evidence=(use, start),
            fixes=(Fix(do="call jax.distributed.initialize first, before anything else of JAX"),),
        )
