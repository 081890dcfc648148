# SPDX-License-Identifier: Apache-2.0
"""RES104: there is no room, or no right, to write where the run will."""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.core.cause import Cause
from keepstep.core.evidence import EvidenceSet
from keepstep.core.facts.host import DiskSeen
from keepstep.core.finding import Confidence, Fix, Found, Severity
from keepstep.core.rule import rule
from keepstep.core.wording import size


@rule(id="RES104", cause=Cause.RESOURCE_DISK_FULL, needs=(DiskSeen,))
def disk_short(seen: EvidenceSet) -> Iterator[Found]:
    """There is no room, or no right, to write where the run will.

    ## What it looks like
    The folder of the checkpoints has less than a gigabyte or hardly an inode left, is read-only, or belongs to
    somebody else.

    ## Why it happens
    Old checkpoints, another user's folder, a mount that is missing on one host.

    ## How we know
    The file system's figures, and the rights of this user.

    ## What to do
    Make room or name another folder.

    ## When this is wrong
    The run writes little.
    """
    for each in seen.all(DiskSeen):
        fact, where = each.fact, each.origin.source.rpartition(" on ")[2]
        if fact.error:
            yield Found(
                title=f"{fact.path} cannot be written on {where}: {fact.error}",
                because="the run would fail when it first writes there",
                evidence=(each,),
                fixes=(
                    Fix(do="see whose it is", command=f"ls -ld {fact.path}"),
                    Fix(do="name a folder that can be written", command="keepstep check resources --path DIR"),
                ),
            )
        elif fact.nearest is not None:
            yield Found(
                title=f"{fact.path} is not there on {where}; the nearest folder above it is {fact.nearest}",
                because="a mount is missing or the path is misspelt, unless the run makes the folder itself",
                evidence=(each,),
                severity=Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="make it, or name the right one", command=f"mkdir -p {fact.path}"),),
            )
        elif fact.free < 1 << 30 or (
            fact.inodes_free is not None and fact.inodes_total and fact.inodes_free * 100 < fact.inodes_total
        ):
            room = f"{size(fact.free)} are free" if fact.free < 1 << 30 else f"{fact.inodes_free} inodes are free"
            yield Found(
                title=f"only {room} at {fact.path} on {where}",
                because="the next checkpoint may not fit",
                evidence=(each,),
                severity=Severity.FATAL if fact.free < 100 << 20 else Severity.WARNING,
                confidence=Confidence.SUPPORTED,
                fixes=(Fix(do="see what fills it", command=f"du -xh {fact.path} | sort -h | tail"),),
            )
