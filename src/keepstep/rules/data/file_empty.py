# SPDX-License-Identifier: Apache-2.0
"""DAT302: a data file has no records."""

from __future__ import annotations

from keepstep.rules.api import Cause, EvidenceSet, Findings, Fix, Found, Severity, ShardBroken, ShardsSeen, rule
from keepstep.rules.asking.data_files import base_name


@rule(id="DAT302", cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY, needs=(ShardBroken,), severity=Severity.WARNING)
def file_empty(seen: EvidenceSet) -> Findings:
    """A data file has no bytes or no records.

    ## What it looks like
    One rank finishes its epoch at once, or fails with `End of sequence`, while the others wait in a collective.

    ## Why it happens
    The writer died before its first record, a filter removed everything, or there were more shards than records.

    ## How we know
    `keepstep check data` read the file to its end.

    ## What to do
    Write the file again, or remove it from the list of files.

    ## When this is wrong
    The loader reads all files on every rank; then an empty one changes nothing.
    """
    for found in seen.groups(ShardBroken, by=lambda fact: (fact.kind == "empty", fact.format)):
        if found[0].fact.kind != "empty":
            continue
        format = found[0].fact.format
        total = sum(e.fact.files for e in seen.all(ShardsSeen) if e.fact.format == format)
        name = base_name(found[0].fact.file)
        if len(found) == 1:
            title = f"{name} is empty: {found[0].fact.how}"
        else:
            title = f"{len(found):,} of {max(total, len(found)):,} {format} files are empty, such as {name}"
        them = "it" if len(found) == 1 else "them"
        yield Found(
            title=title,
            because=f"a rank that is given only {'this file' if len(found) == 1 else 'such files'} gets no batch",
            evidence=found,
            fixes=(Fix(do=f"write {them} again, or remove {them} from the list of files"),),
        )
