# SPDX-License-Identifier: Apache-2.0
"""WRK005: the user's own launcher restarted its ranks, and the run ended well."""

from __future__ import annotations

from keepstep.model.facts import LauncherRestartedRanks
from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, Standing, count, ranks_of, rule


@rule(
    id="WRK005",
    cause=Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
    needs=(LauncherRestartedRanks,),
    severity=Severity.NOTE,
    standing=Standing.SYMPTOM,
)
def launcher_restarted_ranks(seen: EvidenceSet) -> Findings:
    """The launcher restarted its ranks after a failure, and the run then ended well.

    ## What it looks like
    `torchrun --max-restarts` starts all ranks again after one has failed. The command ends with status 0, so nobody
    notices that part of the work was done twice.

    ## Why it happens
    A rank raised an exception, called `sys.exit` with another status than 0, was killed, or crashed.

    ## How we know
    The supervisor saw the rank end, and ranks of the same launcher that began after that.

    ## What to do
    Read what the rank printed before it ended. Make sure that the script resumes from its newest checkpoint.

    ## When this is wrong
    A program may end and restart its own processes by design.
    """
    ends = seen.all(LauncherRestartedRanks)
    first = ends[0]
    how = first.fact.signal or f"exit code {first.fact.code}"
    rank = f"rank {first.who}" if first.who is not None else "a rank"
    often = f", and {count(len(ends) - 1, 'more failure')} followed" if len(ends) > 1 else ""
    yield Found(
        title=f"{rank} ended with {how}, and its launcher started the ranks again{often}",
        because="the launcher restarts its ranks by itself, and the last ones ended well",
        evidence=ends,
        ranks=ranks_of(ends),
        fixes=(Fix(do="read what it printed before it ended; the launcher's log has it"),),
    )
