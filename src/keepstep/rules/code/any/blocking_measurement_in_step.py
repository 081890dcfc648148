# SPDX-License-Identifier: Apache-2.0
"""COD006: every step waits for the device, only to measure."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import program
from keepstep.rules.code._steps import in_every_step
from keepstep.rules.code.torch._torch import is_without_gradients

_METHODS = ("item", "block_until_ready", "tolist")
_CALLS = ("torch.cuda.synchronize", "jax.block_until_ready")


@rule(
    id="COD006",
    cause=Cause.SLOW_STRAGGLER,
    needs=(CodeCall,),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def blocking_measurement_in_step(seen: EvidenceSet) -> Findings:
    """A value is fetched from the device in every step, or the device is synchronised to take the time.

    ## What it looks like
    ```python
    def train(model, loader, optimizer):
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            last = loss.item()
    ```

    ## Why it happens
    The host may run ahead of the device as long as nobody asks for a value. `.item()` and `synchronize()` end that
    in every step, and with collectives all ranks then run at the pace of the slowest.

    ## How we know
    The call stands in the loop that trains, and no condition in the loop makes it rare.

    ## What to do
    ```python
    def train(model, loader, optimizer):
        for step, batch in enumerate(loader):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                last = loss.item()
    ```

    ## When this is wrong
    On a CPU, or where a step is so long that it does not matter.
    """
    known = program(seen)
    for each in known.named(lambda name: name in _CALLS or name.rpartition(".")[2] in _METHODS):
        if in_every_step(known, each) and not is_without_gradients(each, known):
            yield Found(
                title="every step waits for the device",
                because=f"`{each.fact.text}` makes the host wait until the device is done, in every step",
                evidence=(each,),
                fixes=(Fix(do="do it every hundred steps, or keep the value on the device"),),
            )
