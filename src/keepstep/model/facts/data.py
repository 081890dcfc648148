# SPDX-License-Identifier: Apache-2.0
"""Batches, files, labels, shards."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeMismatch(Fact):
    """An operation got operands whose shapes do not fit."""

    left: str | None = None
    right: str | None = None
    op: str | None = None
    supposed: bool = False
    """Whether this only follows from an argument refused over its shape; a more exact message on the line is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DtypeMismatch(Fact):
    """An operation got operands whose types do not fit."""

    left: str | None = None
    right: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptData(Fact):
    """An input file or record could not be decoded."""

    what: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataMissing(Fact):
    """An input file does not exist."""

    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfData(Fact):
    """An iterator ended (``End of sequence``, ``OUT_OF_RANGE``, ran out of data).

    ``warned``: by the warning that Keras 3 gives at the end of any dataset whose length it does not know.
    """

    what: str | None = None
    warned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenShards(Fact):
    """Ranks got differing, too few or no files, samples or batches."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNotDivisible(Fact):
    """A batch could not be split evenly over replicas or devices."""

    batch: str | None = None
    parts: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyBatch(Fact):
    """An operation got a batch (or a replica's part of one) with no rows, or too few."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOutOfRange(Fact):
    """A class index or token id lies outside its table."""

    label: str | None = None
    limit: str | None = None
    certain: bool = True
    """False for a device-side assert that only usually means this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadSeen(Fact):
    """A process began to download a file; harmless unless another one downloads to the same place."""

    path: str
