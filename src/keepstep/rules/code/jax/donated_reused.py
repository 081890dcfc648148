# SPDX-License-Identifier: Apache-2.0
"""COD307: a donated argument is used after the call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from keepstep.rules.api import Cause, CodeCall, CodeFunction, Confidence, EvidenceSet, Findings, Fix, Found, rule
from keepstep.rules.code._asking import Call, ProjectFacts, blocks, program
from keepstep.rules.code.jax._jax import COMPILERS, constants

_DONATED = re.compile(r"donate_arg(?:num|name)s\s*=\s*(\([^()]*\)|\[[^\[\]]*\]|\d+|'[^']*'|\"[^\"]*\")\s*[,)]")
_ROUNDS = 3
_NO_RESULT = re.compile(r"batch|data|input|image|label|targets|example|prefix|prefill|rng", re.I)
"""Names of what a step does not return anew: JAX does not give away buffers that no result fits."""
_NO_UPDATE = re.compile(r"eval|encod|predict|infer|valid|score", re.I)
"""Names of functions that return no new state."""


def _reused(known: ProjectFacts) -> Iterator[tuple[Call, Call, str]]:
    """Where donated variables are read again: the place, the call that donated them, and their names."""
    found: dict[tuple[str, int], tuple[Call, Call, str]] = {}
    for call, slots in _donating(known):
        for name in _given(call, slots):
            for variable, line in call.fact.again:
                if variable == name:
                    use = replace(call, origin=replace(call.origin, line=line))
                    found.setdefault((call.origin.source, line), (use, call, name))
    yield from found.values()


def _donating(known: ProjectFacts) -> list[tuple[Call, tuple[int | str, ...]]]:
    """All calls that donate arguments, with the positions and names of these."""
    found = [pair for jitted in known.calls(*COMPILERS) for pair in _calls_of_variable(known, jitted)]
    donors = {}
    for name, each in known.functions.items():
        if slots := _by_decorator(each.fact):
            donors[name] = slots
    for _ in range(_ROUNDS):
        found += [(call, slots) for name, slots in donors.items() for call in known.callers(name)]
        donors = _that_pass_on(known, found)
    return found


def _by_decorator(function: CodeFunction) -> tuple[int | str, ...]:
    """What a decorated function donates, by position after ``self``, or by name."""
    if not any(each in COMPILERS for each in function.decorators):
        return ()
    given = [slot for text in function.decorated for match in _DONATED.findall(text) for slot in constants(match)]
    is_method = function.name.rpartition(".")[0].rpartition(".")[2][:1].isupper()
    numbers = [slot - is_method if isinstance(slot, int) else slot for slot in given]
    return _both(numbers, function.parameters)


def _both(slots: list[int | str], parameters: tuple[str, ...]) -> tuple[int | str, ...]:
    """Positions with the names that they have, and names with their positions."""
    found: dict[int | str, None] = dict.fromkeys(slots)
    for slot in slots:
        if isinstance(slot, int) and 0 <= slot < len(parameters):
            found[parameters[slot]] = None
        elif slot in parameters:
            found[parameters.index(slot)] = None
    return tuple(found)


def _calls_of_variable(known: ProjectFacts, jitted: Call) -> Iterator[tuple[Call, tuple[int | str, ...]]]:
    """The calls of what ``jax.jit(f, donate_argnums=...)`` was assigned to."""
    fact, variable = jitted.fact, jitted.fact.assigned
    values = [each.value.text for each in fact.arguments if each.name.startswith("donate_arg")]
    if not values or not variable:
        return
    wrapped = known.functions.get(fact.arguments[0].value.target)
    slots = [slot for text in values for slot in constants(text)]
    both = _both(slots, wrapped.fact.parameters if wrapped is not None else ())
    inside = "" if fact.function.endswith(".<module>") or variable.startswith("self.") else fact.function
    for call in known.in_file(jitted):
        is_of_it = call.fact.name == f"{fact.name}.__call__" and call.fact.text.startswith(f"{variable}(")
        if is_of_it and call.fact.function.startswith(inside):
            yield call, both


def _that_pass_on(
    known: ProjectFacts, calls: list[tuple[Call, tuple[int | str, ...]]]
) -> dict[str, tuple[int | str, ...]]:
    """The functions that donate an argument of their own, in any case."""
    found: dict[str, tuple[int | str, ...]] = {}
    for call, slots in calls:
        function = known.functions.get(call.fact.function)
        if function is None or blocks(call, "if", "else", "except"):
            continue
        passed: list[int | str] = [
            name
            for name in _given(call, slots)
            if name in function.fact.parameters and not _is_assigned_before(known, call, name)
        ]
        if passed:
            found[function.fact.name] = _both(passed, function.fact.parameters)
    return found


def _is_assigned_before(known: ProjectFacts, call: Call, name: str) -> bool:
    word = re.compile(rf"\b{re.escape(name)}\b")
    line = call.origin.line or 0
    earlier = [each for each in known.inside(call.fact.function) if (each.origin.line or 0) < line]
    return any(word.search(each.fact.assigned) for each in earlier) or any(
        (each.origin.line or 0) < line and word.search(each.fact.target)
        for each in known.assigned_in.get(call.fact.function, ())
    )


def _given(call: Call, slots: tuple[int | str, ...]) -> list[str]:
    """The variables that a call is given in these places."""
    positional = [each for each in call.fact.arguments if not each.name]
    if any(each.value.text.startswith("*") for each in call.fact.arguments):
        return []
    values = [each.value for at, each in enumerate(positional) if at in slots]
    values += [each.value for each in call.fact.arguments if each.name and each.name in slots]
    if _NO_UPDATE.search(call.fact.text.partition("(")[0]):
        return []
    return [each.text for each in values if not each.made.startswith("numpy.") and not _NO_RESULT.search(each.text)]


@rule(
    id="COD307",
    cause=Cause.USER_CODE_EXCEPTION,
    needs=(CodeCall, CodeFunction),
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def donated_reused(seen: EvidenceSet) -> Findings:
    """A variable is used after its buffer was donated.

    ## What it looks like
    ```python
    import jax

    def step(state, batch):
        return state - batch.mean()

    fast_step = jax.jit(step, donate_argnums=0)

    def train(state, batch):
        new = fast_step(state, batch)
        print("change", new - state)
        return new
    ```

    ## Why it happens
    A donated buffer is given to the compiled program, which writes its result there. The old array has no content
    any more: its next use raises `Array has been deleted`.

    ## How we know
    The position or the name is in `donate_argnums` or `donate_argnames`, also through functions that pass their own
    argument on. The variable is read again before it is assigned anew, perhaps in the next turn of a loop.

    ## What to do
    ```python
    import jax

    def step(state, batch):
        return state - batch.mean()

    fast_step = jax.jit(step, donate_argnums=0)

    def train(state, batch):
        before = state.copy()
        state = fast_step(state, batch)
        print("change", state - before)
        return state
    ```

    ## When this is wrong
    When the argument is a NumPy array or has a shape that no result has: such buffers are not given away.
    """
    known = program(seen)
    for use, call, name in _reused(known):
        yield Found(
            title=f"{name} is used after its buffer was donated",
            because=f"`{call.fact.text}` (line {call.origin.line}) donates `{name}`: its content is gone, and reading"
            " it raises",
            evidence=(use, call),
            fixes=(Fix(do=f"assign the result to {name}, copy it before, or do not donate it"),),
        )
