# SPDX-License-Identifier: Apache-2.0
"""TPU101: a lock file of the TPU driver exists."""

from __future__ import annotations

import shlex

from keepstep.rules.api import Cause, Confidence, EvidenceSet, Findings, Fix, Found, LockFileSeen, Severity, rule


@rule(id="TPU101", cause=Cause.TPU_DEVICE_BUSY_IN_USE, needs=(LockFileSeen,))
def stale_lock(seen: EvidenceSet) -> Findings:
    """A lock file of the TPU driver exists before the run starts.

    ## What it looks like
    /tmp/libtpu_lockfile exists; libtpu says that the TPU is already in use.

    ## Why it happens
    Another process uses the TPU, or a killed process left the file behind.

    ## How we know
    The file exists, and the kernel lists which process holds a lock on it. It counts only where the job's variables
    choose a TPU or the host has one: programs leave the file on hosts without a TPU too. This rule follows libtpu's
    documented behaviour and was not tested on a TPU.

    ## What to do
    End the process that holds the lock. If there is none, remove the file.

    ## When this is wrong
    Newer libtpu versions remove a stale file themselves.
    """
    for each in seen.all(LockFileSeen):
        fact = each.fact
        how = f"{fact.holder} holds it" if fact.holder else "no process holds it any more"
        yield Found(
            title=f"the TPU's lock file {fact.path} exists, and {how}",
            because="libtpu will say that the TPU is already in use",
            evidence=(each,),
            severity=Severity.WARNING,
            confidence=Confidence.SUPPORTED,
            fixes=(
                Fix(do="end the process that uses the TPU", command=f"fuser -v {shlex.quote(fact.path)}")
                if fact.holder
                else Fix(do="remove the stale file", command=f"sudo rm {shlex.quote(fact.path)}"),
            ),
        )
