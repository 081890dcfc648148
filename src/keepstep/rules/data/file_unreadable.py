# SPDX-License-Identifier: Apache-2.0
"""DAT307: a data file cannot be read."""

from __future__ import annotations

import shlex

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, ShardUnreadable, rule, shorten
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT307", cause=Cause.DATA_CORRUPT_OR_TRUNCATED, needs=(ShardUnreadable,))
def file_unreadable(seen: EvidenceSet) -> Findings:
    """A data file could not be opened or read.

    ## What it looks like
    `Permission denied`, `Input/output error`, or a rank that hangs in a read.

    ## Why it happens
    The file belongs to another user, the disk has a bad block, or the server of a mount does not answer.

    ## How we know
    The operating system refused to open or read the file, or did not answer in a bounded time.

    ## What to do
    Make the file readable for the user that trains. After an input/output error, look at the kernel log and the disk.

    ## When this is wrong
    The training runs as another user, who may read it.
    """
    for found in seen.groups(ShardUnreadable, by=lambda fact: fact.why):
        why = shorten(found[0].fact.why, 60)
        name = base_name(found[0].fact.file)
        which = name if len(found) == 1 else f"{len(found):,} files (such as {name})"
        yield Found(
            title=f"{which} could not be read: {why}",
            because="the operating system did not give its bytes",
            evidence=found,
            fixes=(_fix(found[0].fact),),
        )


def _fix(fact: ShardUnreadable) -> Fix:
    if "no answer" in fact.why:
        return Fix(do="see which mount it is on, and whether its server runs; `ls` would hang too", command="mount")
    if "://" in fact.file:
        return Fix(do="open it with fsspec in a Python of your own, with the same credentials")
    if "nput/output" in fact.why:
        return Fix(do="look for errors of the disk in the kernel log", command="dmesg --ctime | tail -50")
    return Fix(do="look at its owner and mode", command=f"ls -l {shlex.quote(fact.file)}")
