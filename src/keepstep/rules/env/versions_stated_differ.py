# SPDX-License-Identifier: Apache-2.0
"""ENV201: ranks run different versions of the framework."""

from __future__ import annotations

from keepstep.rules.api import Cause, ContractBroken, ContractStated, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.asking.stated_differences import broken_contracts
from keepstep.signals.contracts import Subject


@rule(
    id="ENV201",
    cause=Cause.ENV_VERSION_MISMATCH_BETWEEN_NODES,
    needs=(ContractBroken, ContractStated),
    severity=Severity.WARNING,
)
def versions_stated_differ(seen: EvidenceSet) -> Findings:
    """Ranks run different versions of the framework.

    ## What it looks like
    Hangs or errors in the first collective, results that differ between ranks, or nothing at all for a while.

    ## Why it happens
    One host's environment was created at another time, or another environment is active there.

    ## How we know
    Every rank states its versions when the world is formed.

    ## What to do
    Install the same versions everywhere, from one lock file or image.

    ## When this is wrong
    Patch releases of one version usually work together.
    """
    for each in broken_contracts(seen, Subject.VERSIONS):
        yield Found(
            title=f"ranks run different versions: {each.words}",
            because=f"each rank stated its versions, and {each.who} stated something else than the rest",
            evidence=each.evidence,
            ranks=each.odd,
            severity=Severity.FATAL if seen.broken else None,
            fixes=(Fix(do="install the same versions on every host", command="pip install -r requirements.txt"),),
        )
        return
