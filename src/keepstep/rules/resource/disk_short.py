# SPDX-License-Identifier: Apache-2.0
"""RES104: the run will not be able to write where it has to."""

from __future__ import annotations

import shlex

from keepstep.rules.api import Cause, Confidence, DiskSeen, EvidenceSet, Findings, Fix, Found, Severity, rule, size
from keepstep.rules.asking.process_endings import host_of


@rule(id="RES104", cause=Cause.RESOURCE_DISK_FULL, needs=(DiskSeen,))
def disk_short(seen: EvidenceSet) -> Findings:
    """The run will not be able to write where it has to: no space, or no permission.

    ## What it looks like
    The checkpoint folder has less than a gigabyte or hardly an inode left, is read-only, or belongs to another user.

    ## Why it happens
    Old checkpoints fill the disk, the folder belongs to another user, or a mount is missing on one host.

    ## How we know
    The file system's figures, and the permissions of this user.

    ## What to do
    Free space or use another folder.

    ## When this is wrong
    The run writes little.
    """
    for each in seen.all(DiskSeen):
        fact, where = each.fact, host_of(each)
        if fact.error:
            yield Found(
                title=f"{fact.path} cannot be written on {where}: {fact.error}",
                because="the run will fail when it first writes there",
                evidence=(each,),
                fixes=(
                    Fix(do="check who owns it", command=f"ls -ld {shlex.quote(fact.path)}"),
                    Fix(do="use a writable folder", command="keepstep check resources --path DIR"),
                ),
            )
        elif fact.nearest is not None:
            yield Found(
                title=f"{fact.path} does not exist on {where}; the nearest folder above it is {fact.nearest}",
                because="a mount is missing or the path is misspelt, unless the run creates the folder itself",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="create it, or use the right one", command=f"mkdir -p {shlex.quote(fact.path)}"),),
            )
        elif fact.free < 1 << 30 or (
            fact.inodes_free is not None and fact.inodes_total and fact.inodes_free * 100 < fact.inodes_total
        ):
            room = f"{size(fact.free)} is free" if fact.free < 1 << 30 else f"{fact.inodes_free} inodes are free"
            yield Found(
                title=f"only {room} at {fact.path} on {where}",
                because="the next checkpoint may not fit",
                evidence=(each,),
                severity=Severity.FATAL if fact.free < 100 << 20 else Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="check what fills it", command=f"du -xh {shlex.quote(fact.path)} | sort -h | tail"),),
            )
