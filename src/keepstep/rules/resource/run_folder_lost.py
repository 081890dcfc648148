# SPDX-License-Identifier: Apache-2.0
"""RES012: the run folder could not be written any more."""

from __future__ import annotations

import shlex

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, RunFolderLost, Severity, Standing, rule


@rule(
    id="RES012",
    cause=Cause.RESOURCE_DISK_FULL,
    needs=(RunFolderLost,),
    severity=Severity.WARNING,
    standing=Standing.SYMPTOM,
)
def run_folder_lost(seen: EvidenceSet) -> Findings:
    """The run folder could not be written any more, so the recording went on in another place.

    ## What it looks like
    `keepstep run` says that the run folder cannot be written, has no room left or was removed, and where it goes on.

    ## Why it happens
    The disk is full, the kernel has mounted it read-only after an error, a shared file system was unmounted, or
    a clean-up removed the folder during the run.

    ## How we know
    The leader of the run tried to write there, and the system refused.

    ## What to do
    Put run folders on a disk that lasts as long as the run, with `--run-dir`. Checkpoints on the same disk need a
    look, too.

    ## When this is wrong
    It says nothing about why a rank failed, unless the ranks write to the same disk; then they say so themselves.
    """
    for each in seen.all(RunFolderLost):
        fact = each.fact
        what = (
            "was removed" if fact.gone else "had no room left" if fact.full else f"could not be written: {fact.error}"
        )
        kept = f"what the nodes still had is in {fact.instead}"
        yield Found(
            title=f"the run folder {fact.path} on {fact.host} {what}",
            because=f"the system refused to write there ({fact.error}); {kept}",
            evidence=(each,),
            fixes=(
                Fix(do="check the disk of the run folder", command=f"df -h {shlex.quote(fact.path)}"),
                Fix(do="keep runs on another disk", command="keepstep run --run-dir DIR -- COMMAND"),
            ),
        )
