# SPDX-License-Identifier: Apache-2.0
"""What a live input pipeline is made of, and what a sample of it showed."""

from __future__ import annotations

from keepstep.base.lazy_dataclass import dataclass
from keepstep.model.facts.base import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSeen(Fact):
    """The stages of an input pipeline, from its source to its end: what each does, and how."""

    library: str
    stages: tuple[tuple[str, str], ...]
    """``("shuffle", "buffer 100, no seed")``; the first word is the same for all libraries."""
    of_rank: int | None = None
    """The rank it was made for, if it was made for one."""
    ranks: int | None = None
    """Among how many ranks the data should be divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementSpecs(Fact):
    """The types and shapes that one part of the sampled batches has, each with how many batches have it."""

    part: str
    specs: tuple[tuple[str, int], ...]
    last: str
    """That of the last batch."""
    ended: bool
    """Whether the last batch of the sample is the last one of the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCompared(Fact):
    """The rows that two ranks would be fed, in a sample of their batches."""

    first: int
    second: int
    rows: int
    """Different rows of the smaller sample."""
    shared: int
    same_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPace(Fact):
    """How fast the input is, and what takes the most time."""

    batches: int
    per_batch_s: float
    step_s: float | None = None
    """How long a step takes, if it was given."""
    limit: str | None = None
    limit_s: float | None = None
    """How long that takes per batch."""
    workers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFed(Fact):
    """A batch that a data-parallel rank trained on, by a hash of its content. Epochs and batches count from 1."""

    epoch: int
    batch: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksFedAlike(Fact):
    """Data-parallel ranks whose batches had the same content, as the guards found out while they trained."""

    ranks: tuple[int, ...]
    batches: tuple[str, ...]
    """``("batch 1", "batch 2")``, ``("epoch 2", "step 46")``."""
    step: int
    """How many steps had been taken when it was found."""
