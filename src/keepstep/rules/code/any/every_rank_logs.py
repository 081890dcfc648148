# SPDX-License-Identifier: Apache-2.0
"""COD009: every rank prints in every step."""

from __future__ import annotations

from keepstep.rules.api import Cause, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import program
from keepstep.rules.code._steps import in_every_step


@rule(
    id="COD009",
    cause=Cause.SLOW_STRAGGLER,
    needs=(CodeCall,),
    severity=Severity.NOTE,
    confidence=Confidence.SUPPORTED,
    preview=True,
)
def every_rank_logs(seen: EvidenceSet) -> Findings:
    """Every rank prints a line in every step.

    ## What it looks like
    ```python
    import torch.distributed as dist

    def train(model, loader, optimizer):
        dist.init_process_group("gloo")
        for batch in loader:
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            print("loss", loss)
    ```

    ## Why it happens
    With many ranks the lines fill disks and slow the steps down, and nobody finds the one that matters.

    ## How we know
    The call is in the training loop, and no condition on the rank or the step guards it.

    ## What to do
    ```python
    import torch.distributed as dist

    def train(model, loader, optimizer):
        dist.init_process_group("gloo")
        for step, batch in enumerate(loader):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            if step % 100 == 0 and dist.get_rank() == 0:
                print("loss", loss)
    ```

    ## When this is wrong
    When the logger itself is silent on other ranks.
    """
    known = program(seen)
    for each in known.calls("print", "logging.info", "logging.warning"):
        if in_every_step(known, each) and known.any_imports(each, "torch.distributed", "horovod", "jax"):
            yield Found(
                title="every rank prints in every step",
                because=f"`{each.fact.text}` runs in every step of the training loop, on every rank",
                evidence=(each,),
                fixes=(Fix(do="print on rank 0, every so many steps"),),
            )
