# SPDX-License-Identifier: Apache-2.0
"""DAT301: a data file is corrupt or cut short."""

from __future__ import annotations

from keepstep.model.facts import ShardBroken, ShardsSeen
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Safety, count, rule, shorten
from keepstep.rules.asking.data_files import base_name, damaged, place

_WORDS = {
    "corrupt": "corrupt",
    "truncated": "cut short",
    "misnamed": "not what the name says",
    "index": "not what the index says",
    "missing": "missing",
}
_SIDE_BY_SIDE = ("TFRecord", "JSON lines", "CSV")
"""Formats whose records can be left out without writing the file anew."""


@rule(id="DAT301", cause=Cause.DATA_CORRUPT_OR_TRUNCATED, needs=(ShardBroken,))
def file_damaged(seen: EvidenceSet) -> Findings:
    """A data file is corrupt, cut short, missing, or not what its name or its index says.

    ## What it looks like
    During training: `corrupted record at`, `image file is truncated`, `Parquet magic bytes not found`, a crash in a
    decoder, or nothing at all, where the loader skips what it cannot read.

    ## Why it happens
    A copy or download was cut short, the writer died or its disk was full, a disk or a network changed bits, or a
    shard was replaced and its index was not.

    ## How we know
    `keepstep check data` read the file and compared it with what its format demands: checksums, lengths, structure,
    the index. Each bad record is named by its number and its byte.

    ## What to do
    Fetch or write the file again. To go on without the bad records, write a clean copy, or a list of what to skip.

    ## When this is wrong
    A program of your own writes a format that only resembles this one.
    """
    for found in damaged(seen):
        format = found[0].fact.format
        files = list(dict.fromkeys(e.fact.file for e in found))
        total = sum(e.fact.files for e in seen.all(ShardsSeen) if e.fact.format == format)
        yield Found(
            title=_title(found, files, format, total),
            because=_because(found),
            evidence=found,
            fixes=(
                Fix(do="fetch or write the file again" if len(files) == 1 else "fetch or write these files again"),
                *_without(found, format),
            ),
        )


def _without(found: tuple[Evidence[ShardBroken], ...], format: str) -> list[Fix]:
    """How to go on without the bad records, where the format lets one leave out some."""
    if format not in _SIDE_BY_SIDE:
        return []
    file = next((e.fact.file for e in found if e.fact.record is not None), None)
    if file is None:
        return []
    return [
        Fix(
            do="or go on without the bad records: write copies that lack them",
            command=f"keepstep check data {shorten(file, 80)} --clean DIR",
            safety=Safety.CHANGES_RESULTS,
        )
    ]


def _title(found: tuple[Evidence[ShardBroken], ...], files: list[str], format: str, total: int) -> str:
    first = found[0].fact
    if len(files) == 1:
        more = len(found) - 1 + sum(e.fact.more for e in found)
        rest = f" (+ {count(more, 'more')})".replace("mores", "more") if more else ""
        return f"{base_name(first.file)} is {_WORDS[first.kind]}: {place(first)}{shorten(first.how, 70)}{rest}"
    kinds = {e.fact.kind for e in found}
    word = _WORDS[first.kind] if len(kinds) == 1 else "damaged"
    of = f"{len(files):,} of {total:,}" if total >= len(files) else f"{len(files):,}"
    return f"{of} {format} files are {word}, such as {base_name(first.file)} ({place(first).rstrip(': ') or first.how})"


def _because(found: tuple[Evidence[ShardBroken], ...]) -> str:
    records = sum(e.fact.record is not None for e in found) + sum(e.fact.more for e in found)
    if records:
        return f"{count(records, 'record')} cannot be read as the format demands"
    return f"{count(len(found), 'file')} cannot be read as the format demands"
