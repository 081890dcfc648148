# SPDX-License-Identifier: Apache-2.0
"""SYN202: ranks use different communication options."""

from __future__ import annotations

from keepstep.rules.api import Cause, ContractBroken, ContractStated, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import broken_contracts
from keepstep.rules.sync._waiting import differing
from keepstep.signals.contracts import Subject


@rule(
    id="SYN202",
    cause=Cause.SYNC_COLLECTIVE_MISMATCH,
    needs=(ContractBroken, ContractStated),
    explains=(Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK, Cause.NETWORK_TIMEOUT_SLOW),
)
def options_stated_differ(seen: EvidenceSet) -> Findings:
    """Ranks use different communication options (backend, algorithm, time limit).

    ## What it looks like
    The first collective never ends, or a rank gives up long before the others.

    ## Why it happens
    The backend depends on what a rank finds on its host (a GPU that one host lacks), or on an option of one
    rank's command.

    ## How we know
    Every rank states its backend and options when the world is formed.

    ## What to do
    Name the backend and its options explicitly, the same on every rank.

    ## When this is wrong
    A difference in time limits alone does no harm until something is slow.
    """
    for each in broken_contracts(seen, Subject.OPTIONS):
        yield Found(
            title=f"ranks use different communication options: {each.words}",
            because=f"each rank stated its options; {differing(each.odd)}",
            evidence=each.evidence,
            ranks=each.odd,
            severity=None if seen.broken else Severity.WARNING,
            fixes=(Fix(do="name the backend and options explicitly, the same on every rank"),),
        )
        return
