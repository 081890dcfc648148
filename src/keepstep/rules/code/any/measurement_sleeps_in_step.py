# SPDX-License-Identifier: Apache-2.0
"""COD015: every step sleeps to measure the CPU."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, program
from keepstep.rules.code._steps import step_around

_MEASURES = ("cpu_percent", "cpu_times_percent")


def _seconds(call: Call) -> float:
    """How long it waits: without an interval it does not."""
    value = call.fact.argument("interval", 0)
    try:
        return float(value.literal) if value is not None and value.literal is not None else 0.0
    except ValueError:
        return 0.0


@rule(
    id="COD015",
    cause=Cause.SLOW_STRAGGLER,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def measurement_sleeps_in_step(seen: EvidenceSet) -> Findings:
    """`psutil.cpu_percent(interval=1)` stands in the loop that trains, and sleeps a second in every step.

    ## What it looks like
    ```python
    import psutil

    def train(model, loader, optimizer):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            print(psutil.cpu_percent(interval=1))
    ```

    ## Why it happens
    With an interval, psutil reads the counters, sleeps that long, and reads them again. The training waits for it
    in every step, and where ranks meet in the step, all of them wait.

    ## How we know
    The call has an interval that is a number above zero. It stands in a loop with a training step, or in a function
    that such a loop calls, and no condition makes it rare.

    ## What to do
    ```python
    import psutil

    def train(model, loader, optimizer):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
            print(psutil.cpu_percent(interval=None))
    ```

    ## When this is wrong
    When a step is so long that the wait does not matter.
    """
    known = program(seen)
    for each in known.methods(*_MEASURES):
        seconds = _seconds(each)
        if seconds <= 0 or not known.imports(each, "psutil"):
            continue
        step = step_around(known, each)
        if step is not None:
            yield Found(
                title=f"every step sleeps {seconds:g} s to measure the CPU",
                because=f"`{each.fact.text}` sleeps for its interval, in the loop of `{step.fact.text}` (line"
                f" {step.origin.line})",
                evidence=(each, step),
                fixes=(
                    Fix(do="give interval=None: psutil then compares with its last call and does not wait"),
                    Fix(do="or measure in a thread of its own"),
                ),
            )
