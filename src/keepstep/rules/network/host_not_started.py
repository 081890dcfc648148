# SPDX-License-Identifier: Apache-2.0
"""NET116: the check could not be started on a host."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.link import HostNotStarted
from keepstep.core.finding import Fix, Found
from keepstep.core.rule import rule
from keepstep.core.wording import shorten

NOT_FOUND = 127


@rule(id="NET116", cause=Cause.NETWORK_UNREACHABLE_OR_FIREWALL, needs=(HostNotStarted,))
def host_not_started(seen: EvidenceSet) -> Iterator[Found]:
    """`keepstep check --hosts` could not start the check on a host.

    ## What it looks like
    ssh ends with an error instead of a check.

    ## Why it happens
    The host does not answer, its key is unknown, the login needs a password (the check asks for none), or keepstep is not
    installed there.

    ## How we know
    The exit status and the words of ssh.

    ## What to do
    Log in by hand once; install keepstep in the environment that a login without a terminal gets.

    ## When this is wrong
    A shell start-up file on that host that prints or fails may hide the real reason.
    """
    for each in seen.all(HostNotStarted):
        fact = each.fact
        absent = fact.status == NOT_FOUND
        yield Found(
            title=f"the check could not be started on {fact.host}"
            + (": keepstep is not found there" if absent else ""),
            because=shorten(fact.said) or f"ssh ended with status {fact.status}",
            evidence=(each,),
            fixes=(
                Fix(do="install it there", command=f"ssh {fact.host} python3 -m pip install keepstep")
                if absent
                else Fix(
                    do="see whether a login without questions works", command=f"ssh -o BatchMode=yes {fact.host} true"
                ),
            ),
        )
