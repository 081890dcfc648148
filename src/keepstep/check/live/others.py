# SPDX-License-Identifier: Apache-2.0
"""Grain, Hugging Face datasets, and anything else that can be iterated more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keepstep.check.live.sampling import Limit, refuse_read_once
from keepstep.model.facts.pipeline import PipelineSeen

_GRAIN = {
    "Shuffle": "shuffle",
    "WindowShuffle": "shuffle",
    "Batch": "batch",
    "Repeat": "repeat",
    "Slice": "shard",
    "Shard": "shard",
    "Prefetch": "prefetch",
    "Filter": "filter",
    "Source": "source",
    "Range": "source",
}


class Plain:
    """Any iterable."""

    library = "Python"

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None:
        return None

    def readable(self, dataset: Any) -> Iterable[Any]:
        refuse_read_once(dataset, "this iterator")
        return dataset  # type: ignore[no-any-return]

    def limit(self, dataset: Any, seconds: float) -> Limit | None:
        return None


class Grain(Plain):
    """``MapDataset``, ``IterDataset`` and ``DataLoader`` of Grain."""

    library = "Grain"

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None:
        sampler = getattr(dataset, "_sampler", None)
        if sampler is not None:
            options = getattr(dataset, "_shard_options", None)
            found = [("source", type(getattr(dataset, "_data_source", None)).__name__)]
            if options is not None and options.shard_count > 1:
                found.append(("shard", f"{options.shard_index} of {options.shard_count}"))
            if getattr(sampler, "_shuffle", False):
                found.append(("shuffle", f"seed {sampler._seed}"))
            found += [_named(type(each).__name__, "") for each in getattr(dataset, "_operations", ())]
            found.append(("prefetch", f"{dataset.multiprocessing_options.num_workers} workers"))
            return PipelineSeen(library=self.library, stages=tuple(found), of_rank=rank, ranks=ranks)
        chain, at = [], dataset
        while at is not None:
            chain.append(_named(type(at).__name__.removesuffix("MapDataset").removesuffix("IterDataset"), _seed_of(at)))
            parents = getattr(at, "_parents", None) or ()
            at = parents[0] if parents else None
        return PipelineSeen(library=self.library, stages=tuple(reversed(chain)), of_rank=rank, ranks=ranks)


def _named(name: str, how: str) -> tuple[str, str]:
    bare = name.strip("_")
    known = next((word for begin, word in _GRAIN.items() if bare.startswith(begin)), None)
    return (known or "map", how if known == "shuffle" else bare)


def _seed_of(stage: Any) -> str:
    seed = getattr(stage, "_seed", None)
    return f"seed {seed}" if seed is not None else "no seed"


class HuggingFace(Plain):
    """``Dataset`` and ``IterableDataset`` of Hugging Face."""

    library = "Hugging Face"

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None:
        found = [("source", type(dataset).__name__)]
        shards = getattr(dataset, "num_shards", None)
        if shards is not None:
            found = [("source", f"{type(dataset).__name__}, {shards} shards")]
        split = getattr(dataset, "_distributed", None)
        shuffling = getattr(dataset, "_shuffling", None)
        if shuffling is not None:
            found.append(("shuffle", "generator"))
        if split is not None:
            found.append(("shard", f"{split.rank} of {split.world_size}"))
        return PipelineSeen(library=self.library, stages=tuple(found), of_rank=rank, ranks=ranks)
