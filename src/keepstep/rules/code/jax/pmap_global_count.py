# SPDX-License-Identifier: Apache-2.0
"""COD305: the leading axis for pmap counts the devices of all processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.rules.api import Cause, CodeCall, Confidence, Edit, EvidenceSet, Findings, Fix, Found, Value, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._edits import replaced
from keepstep.rules.code.jax._jax import has_several_processes, is_compiled_by

_LEADING = (
    r"reshape\(\s*[(\[]?\s*{0}\s*,",
    r"reshape\([^,()]+,\s*[(\[]\s*{0}\s*,",
    r"broadcast_to\(.+?,\s*\(\s*{0}\s*,",
    r"\b(?:zeros|ones|full|empty)\(\s*\(\s*{0}\s*,",
    r"\bsplit\([^,()]+,\s*(?:num=)?{0}\s*\)",
    r"\]\s*\*\s*{0}(?!\w)",
)
"""Where a number becomes the first axis."""


def _leading(known: ProjectFacts) -> Iterator[Call]:
    for each in (*known.calls("jax.device_count"), *known.calls("jax.devices")):
        if each.fact.name == "jax.devices" and not _counted(known, each):
            continue
        if not is_compiled_by(known, each, "jax.pmap") or not has_several_processes(known, each):
            continue
        if known.among(each, "jax.local_device_count", "jax.local_devices") or each.fact.arguments:
            continue
        names = [each.fact.text, each.fact.assigned, *_counted(known, each)]
        if any(_is_axis(known, each, name) for name in names if name):
            yield each


def _counted(known: ProjectFacts, devices: Call) -> list[str]:
    """How the number of devices is written: ``len(jax.devices())``, and the variable that holds it."""
    text = f"len({devices.fact.text})"
    held = [
        each.fact.target
        for each in known.assigned_in_file(devices)
        if each.fact.value.text == text and each.origin.line == devices.origin.line
    ]
    return [text, *held] if held else []


def _is_axis(known: ProjectFacts, count: Call, name: str) -> bool:
    """Whether a number of that name becomes the first axis, in its file or in a function that it is given to."""
    texts = [(each, name) for each in known.in_file(count)]
    for each in known.in_file(count):
        function = known.functions.get(each.fact.target)
        for position, argument in enumerate(each.fact.arguments if function is not None else ()):
            if argument.value.text == name and function is not None:
                names = function.fact.parameters
                inside = argument.name or (names[position] if position < len(names) else "")
                texts += [(inner, inside) for inner in known.inside(function.fact.name)]
                texts += [(inner, inside) for inner in _lambdas(known, function.fact.name)]
    return any(
        re.search(form.format(re.escape(what)), each.fact.text) for each, what in texts if what for form in _LEADING
    )


def _lambdas(known: ProjectFacts, function: str) -> list[Call]:
    """The calls in the lambdas of a function."""
    here = known.functions_in[known.functions[function].origin.source]
    names = [each.fact.name for each in here if each.fact.name.startswith(f"{function}.<lambda")]
    return [each for name in names for each in known.inside(name)]


def _edit(known: ProjectFacts, count: Call) -> Edit | None:
    """The local one of the same name, where the number is used for nothing but the axis that is found."""
    line, column, last, end = count.fact.span
    called = Value(text=count.fact.text, span=(line, column, last, end))
    if not re.fullmatch(r"jax\.(?:devices|device_count)\(\)", count.fact.text):
        return None
    name = re.compile(rf"(?<![\w.]){re.escape(count.fact.assigned)}(?!\w)")
    if count.fact.assigned and len(name.findall(known.text(count.origin.source))) != 2:
        return None
    return replaced(known, count.origin.source, called, count.fact.text.replace("jax.", "jax.local_"))


@rule(id="COD305", cause=Cause.DATA_SHAPE_MISMATCH, needs=(CodeCall,), confidence=Confidence.SUPPORTED)
def pmap_global_count(seen: EvidenceSet) -> Findings:
    """The leading axis of what `pmap` is given has `jax.device_count()` elements.

    ## What it looks like
    ```python
    import jax

    def train(step, batches):
        jax.distributed.initialize()
        count = jax.device_count()
        run = jax.pmap(step, axis_name="devices")
        for batch in batches:
            run(batch.reshape(count, -1, *batch.shape[1:]))
    ```

    ## Why it happens
    A process gives `pmap` the data of its own devices. `device_count` counts those of all processes, so with more
    than one process the leading axis does not fit, and `pmap` raises.

    ## How we know
    The value of `device_count()` becomes the first axis of an array, in a program of several processes that uses
    `pmap` and never asks for `local_device_count`.

    ## What to do
    ```python
    import jax

    def train(step, batches):
        jax.distributed.initialize()
        count = jax.local_device_count()
        run = jax.pmap(step, axis_name="devices")
        for batch in batches:
            run(batch.reshape(count, -1, *batch.shape[1:]))
    ```

    ## When this is wrong
    When the array does not go to `pmap`, or there is one process only.
    """
    known = program(seen)
    for each in _leading(known):
        yield Found(
            title="the leading axis for pmap counts the devices of all processes",
            because=f"`{each.fact.text}` counts the devices of all processes, and pmap takes one slice per local one",
            evidence=(each,),
            fixes=(Fix(do="use jax.local_device_count() for what goes to pmap", edit=_edit(known, each)),),
        )
