# SPDX-License-Identifier: Apache-2.0
"""DAT003: an input file could not be decoded."""

from __future__ import annotations

import shlex

from keepstep.model.facts import CheckpointUnreadable, CorruptData
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Safety, rule, shorten
from keepstep.rules.asking.fallout import FALLOUT, lasting, who
from keepstep.rules.asking.unpickling import of_input


def _path(found: tuple[Evidence[CorruptData], ...]) -> str | None:
    return next((e.fact.path for e in found if e.fact.path), None)


def _where(found: tuple[Evidence[CorruptData], ...]) -> str:
    path = _path(found)
    return f" ({shorten(path, 60)})" if path else ""


@rule(
    id="DAT003",
    cause=Cause.DATA_CORRUPT_OR_TRUNCATED,
    needs=(CorruptData, CheckpointUnreadable),
    explains=(*FALLOUT, Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE, Cause.DATA_SHARDING_UNEVEN_OR_EMPTY),
)
def corrupt_or_truncated(seen: EvidenceSet) -> Findings:
    """An input file or record could not be decoded.

    ## What it looks like
    `corrupted record at`, `cannot identify image file`, `image file is truncated`, `BadZipFile`, `Parquet
    magic bytes not found`, `Could not parse example input`.

    ## Why it happens
    A download or copy was cut short, the writer died, the disk was full, an HTML error page was saved as an image, or
    the file has another format than its name says.

    ## How we know
    The decoder rejected the bytes, and names the file where it knows it.

    ## What to do
    Check and replace the file. To go on without it, skip samples that cannot be decoded.

    ## When this is wrong
    The loader skips bad samples and training goes on; then nothing is reported. A reader with a wrong schema prints the
    same messages for good files.
    """
    found = lasting(seen, CorruptData)
    if not found:
        yield from _not_unpickled(seen)
        return
    first = found[0].fact
    yield Found(
        title=f"{who(found)} could not decode its input{_where(found)}: {shorten(first.what, 40)}",
        because="the decoder rejected the bytes of an input file" + _where(found),
        evidence=found,
        fixes=(
            Fix(
                do="check the file, and fetch it again if it is incomplete",
                command=f"ls -l {shlex.quote(_path(found) or 'FILE')} && file {shlex.quote(_path(found) or 'FILE')}",
            ),
            Fix(do="or skip samples that cannot be decoded", safety=Safety.CHANGES_RESULTS),
        ),
    )


def _not_unpickled(seen: EvidenceSet) -> Findings:
    """Input that is pickled or zipped like a checkpoint: only the stack frames show that it is not one."""
    found = tuple(e for e in lasting(seen, CheckpointUnreadable) if of_input(seen, e))
    if found:
        why = found[0].fact.why
        yield Found(
            title=f"{who(found)} could not read one of its input files"
            + (f": {shorten(why.strip(' :'), 60)}" if why else ""),
            because="the data loader failed on the bytes of a file, which is incomplete or has another format",
            evidence=found,
            fixes=(
                Fix(do="find the file (print paths in the dataset), and fetch or write it again"),
                Fix(do="or skip samples that cannot be read", safety=Safety.CHANGES_RESULTS),
            ),
        )
