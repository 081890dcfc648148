# SPDX-License-Identifier: Apache-2.0
"""What rules about data files ask: which are damaged, and whose schema differs from the majority's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keepstep.rules.api import Evidence, EvidenceSet, Fact, Origin, ShardBroken, ShardSchema, ShardsSeen

_NOT_DAMAGE = ("empty", "incomplete")

Difference = tuple[str, str, str]
"""A field, what the odd files have, and what most have."""


def base_name(path: str) -> str:
    """The last part of a path, or of what an URL names inside an archive (``zip://a.csv::s3://bucket/b.zip``)."""
    inner = path.partition("::")[0] if "://" in path else path
    return inner.rstrip("/").rpartition("/")[2] or path


def place(fact: ShardBroken) -> str:
    """``record 17 at byte 88,120: ``, or nothing."""
    parts = [f"record {fact.record:,}"] if fact.record is not None else []
    parts += [f"at byte {fact.offset:,}"] if fact.offset is not None else []
    return f"{' '.join(parts)}: " if parts else ""


def damaged(seen: EvidenceSet) -> list[tuple[Evidence[ShardBroken], ...]]:
    """What is damaged, by format."""
    groups = seen.groups(ShardBroken, by=lambda fact: (fact.kind in _NOT_DAMAGE, fact.format))
    return [group for group in groups if group[0].fact.kind not in _NOT_DAMAGE]


@dataclass(frozen=True, slots=True)
class OddSchema:
    """Files whose fields are not those of most files in their folder."""

    folder: str
    format: str
    files: int
    total: int
    example: str
    types: tuple[Difference, ...]
    shapes: tuple[Difference, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    evidence: Evidence[Fact]


def odd_schemas(seen: EvidenceSet) -> tuple[OddSchema, ...]:
    """Schemas that differ from the one that more than half of a folder's files have."""
    return seen.once(_odd_schemas)


def _odd_schemas(seen: EvidenceSet) -> tuple[OddSchema, ...]:
    return tuple(odd for each in seen.all(ShardsSeen) for odd in _of_folder(each))


def _of_folder(each: Evidence[ShardsSeen]) -> Iterator[OddSchema]:
    schemas = each.fact.schemas
    total = sum(schema.files for schema in schemas)
    most = max(schemas, key=lambda schema: schema.files, default=None)
    if most is None or len(schemas) < 2 or most.files * 2 <= total:
        return
    usual = {name: (dtype, shape) for name, dtype, shape in most.fields}
    for schema in schemas:
        if schema is not most:
            yield from _difference(each, most, schema, usual, total)


def _difference(
    each: Evidence[ShardsSeen], most: ShardSchema, schema: ShardSchema, usual: dict[str, tuple[str, str]], total: int
) -> Iterator[OddSchema]:
    own = {name: (dtype, shape) for name, dtype, shape in schema.fields}
    types = tuple((n, own[n][0], usual[n][0]) for n in own if n in usual and own[n][0] != usual[n][0])
    shapes = tuple(
        (n, own[n][1], usual[n][1])
        for n in own
        if n in usual and own[n][1] and usual[n][1] and own[n][1] != usual[n][1]
    )
    missing = tuple(n for n in usual if n not in own)
    added = tuple(n for n in own if n not in usual)
    if not (types or shapes or missing or added):
        return
    shown = [f"{n}: {w} instead of {u}" for n, w, u in (*types, *shapes)]
    shown += [f"{n} is missing" for n in missing] + [f"{n} is added" for n in added]
    quote = "; ".join(shown[:6])
    yield OddSchema(
        folder=each.fact.folder,
        format=each.fact.format,
        files=schema.files,
        total=total,
        example=schema.examples[0],
        types=types,
        shapes=shapes,
        missing=missing,
        added=added,
        evidence=Evidence(fact=each.fact, origin=Origin(source=schema.examples[0]), quote=quote),
    )
