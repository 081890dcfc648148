# SPDX-License-Identifier: Apache-2.0
"""RES105: a limit on files or processes is nearly reached."""

from __future__ import annotations

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, LimitSeen, Severity, rule
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES105", cause=Cause.RESOURCE_FD_OR_PROCESS_LIMIT, needs=(LimitSeen,))
def limits_low(seen: EvidenceSet) -> Findings:
    """A limit on open files or processes is low or nearly reached.

    ## What it looks like
    Fewer than 1,024 files may be open, or fewer than 200 more processes may be started. Loader workers fail with `Too
    many open files` or `Resource temporarily unavailable`.

    ## Why it happens
    A low default of the container, the service manager or a control group.

    ## How we know
    The limits of this process, and how much of them is used.

    ## What to do
    Raise the limit.

    ## When this is wrong
    The run is small.
    """
    for each in seen.all(LimitSeen):
        fact, where = each.fact, host_of(each)
        if fact.soft is None:
            continue
        left = fact.soft - (fact.used or 0)
        if (fact.name == "open files" and left < 900) or (
            fact.name != "open files" and fact.used is not None and left < 200
        ):
            flag = "-n 65536" if fact.name == "open files" else "-u 65536"
            yield Found(
                title=f"{fact.name} are limited to {fact.soft} on {where}, and {left} are left",
                because="loader workers, sockets and checkpoints may need more",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="raise the limit in the job script", command=f"ulimit {flag}"),),
            )
