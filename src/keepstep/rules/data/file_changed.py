# SPDX-License-Identifier: Apache-2.0
"""DAT306: a data file is not what it was."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, ShardChanged, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT306", cause=Cause.DATA_CORRUPT_OR_TRUNCATED, needs=(ShardChanged,))
def file_changed(seen: EvidenceSet) -> Findings:
    """The content of a data file is not what it was at an earlier check.

    ## What it looks like
    Nothing, or results that cannot be repeated.

    ## Why it happens
    Someone wrote the file again. If its size and modification time are as before, no program wrote it: a disk, a cable
    or memory changed bits, or a copy kept the old time.

    ## How we know
    The hash of its bytes differs from the hash in the manifest of the earlier check.

    ## What to do
    If the change was not meant, fetch the file again. Check the disk where several files changed silently.

    ## When this is wrong
    A tool wrote the file and set its modification time back on purpose.
    """
    for silently in (True, False):
        found = tuple(e for e in seen.all(ShardChanged) if e.fact.silently is silently)
        if not found:
            continue
        names = base_name(found[0].fact.file)
        which = names if len(found) == 1 else f"{len(found):,} files (such as {names})"
        if silently:
            yield Found(
                title=f"{which} changed without being written: the content differs, size and time do not",
                because="the hash differs from the one in the manifest, and no program has modified the file since",
                evidence=found,
                fixes=(Fix(do="fetch the file again, and check the disk that it is on", command="dmesg | tail"),),
            )
        else:
            yield Found(
                title=f"{which} changed since the last check",
                because="the hash differs from the one in the manifest",
                evidence=found,
                severity=Severity.NOTE,
                fixes=(Fix(do="if that was not meant, fetch the earlier version again"),),
            )
