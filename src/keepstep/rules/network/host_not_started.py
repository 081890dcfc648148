# SPDX-License-Identifier: Apache-2.0
"""NET116: the check could not be started on a host."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, HostNotStarted, rule, shorten

NOT_THERE = (126, 127)
"""The host was reached, and has no such command: ENV008."""


@rule(id="NET116", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(HostNotStarted,))
def host_not_started(seen: EvidenceSet) -> Findings:
    """`keepstep check --hosts` could not start the check on a host.

    ## What it looks like
    ssh ends with an error instead of running the check.

    ## Why it happens
    The host does not answer, its key is unknown, or the login needs a password (the check never asks for one). A host
    without keepstep is another finding (ENV008).

    ## How we know
    From the exit status and the error message of ssh.

    ## What to do
    Log in by hand once.

    ## When this is wrong
    A shell start-up file on that host that prints something or fails may hide the real reason.
    """
    for each in seen.all(HostNotStarted):
        fact = each.fact
        if fact.status in NOT_THERE:
            continue
        yield Found(
            title=f"the check could not be started on {fact.host}",
            because=shorten(fact.said) or f"ssh ended with status {fact.status}",
            evidence=(each,),
            fixes=(
                Fix(do="check whether a login without prompts works", command=f"ssh -o BatchMode=yes {fact.host} true"),
            ),
        )
