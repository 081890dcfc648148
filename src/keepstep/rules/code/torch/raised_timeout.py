# SPDX-License-Identifier: Apache-2.0
"""COD119: the time-out of the process group is hours long."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.code import CodeCall, Value
from keepstep.core.finding import Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.rules.code._asking import program
from keepstep.rules.code.torch._torch import INIT

LONG_S = 2 * 3600
_UNITS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "weeks": 604800}
_PART = re.compile(r"(days|hours|minutes|seconds|weeks)\s*=\s*(\d[\d_]*)")


def _seconds(timeout: Value | None) -> int | None:
    if timeout is None or "timedelta(" not in timeout.text:
        return None
    parts = [_UNITS[unit] * int(number) for unit, number in _PART.findall(timeout.text)]
    return sum(parts) if parts else None


@rule(id="COD119", cause=Cause.NETWORK_TIMEOUT_SLOW, needs=(CodeCall,), severity=Severity.NOTE)
def raised_timeout(seen: EvidenceSet) -> Iterator[Found]:
    """The process group's time-out is raised to hours.

    ## What it looks like
    ```python
    from datetime import timedelta
    import torch.distributed as dist

    def setup():
        dist.init_process_group("gloo", timeout=timedelta(hours=5))
    ```

    ## Why it happens
    A long time-out mostly hides that one rank does something slow (tokenizing, downloading, saving) while the
    others wait in a collective. When a rank dies, all the others now hang for hours before anybody hears of it.

    ## How we know
    The time-out in the call is two hours or more.

    ## What to do
    ```python
    from datetime import timedelta
    import torch.distributed as dist

    def setup():
        dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    ```

    ## When this is wrong
    When one collective really has to wait that long.
    """
    known = program(seen)
    for each in (*known.calls(INIT, "torch.distributed.new_group"), *known.methods("InitProcessGroupKwargs")):
        seconds = _seconds(each.fact.argument("timeout"))
        if seconds is not None and seconds >= LONG_S:
            yield Found(
                title="a hang would go unnoticed for hours",
                because=f"the time-out is {seconds / 3600:.0f} hours: when a rank is stuck, the others wait that long",
                evidence=(each,),
                fixes=(
                    Fix(do="do the slow work before the group is formed, or on all ranks; keep the usual time-out"),
                ),
            )
