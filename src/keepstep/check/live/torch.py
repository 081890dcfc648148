# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ``DataLoader``: its sampler, its workers, and what takes its time."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from keepstep.check.live.sampling import Limit, generators_kept, refuse_read_once
from keepstep.feed.own_rank import whoami
from keepstep.model.facts.pipeline import PipelineSeen

MOST_TIMED = 64
"""Records that are read one by one to see how long one takes."""


class Torch:
    library = "PyTorch"

    def stages(self, dataset: Any, rank: int | None, ranks: int | None) -> PipelineSeen | None:
        sampler = dataset.sampler
        source = type(dataset.dataset).__name__
        name = type(sampler).__name__ if sampler is not None else type(dataset.batch_sampler).__name__
        found = [("source", f"iterable {source}" if _iterable(dataset) else source)]
        if getattr(sampler, "num_replicas", None) or getattr(sampler, "ranks", None):
            parts = getattr(sampler, "num_replicas", None) or sampler.ranks
            if getattr(sampler, "shuffle", False):
                found.append(("shuffle", f"seed {getattr(sampler, 'seed', None)}"))
            found.append(("shard", f"{sampler.rank} of {parts} ({name})"))
        elif name in ("RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler"):
            found += [
                ("shuffle", f"{name}, {'a generator' if sampler.generator is not None else 'no seed'}"),
                ("deal", name),
            ]
        elif name == "SequentialSampler":
            found.append(("deal", name))
        else:
            found.append(("sample", name))
        found.append(("batch", str(dataset.batch_size)))
        if dataset.num_workers:
            found.append(("prefetch", f"{dataset.num_workers} workers"))
        if ranks is None:
            try:
                ranks = whoami()[1]
            except ValueError:
                ranks = None
        return PipelineSeen(library=self.library, stages=tuple(found), of_rank=rank, ranks=ranks)

    def readable(self, dataset: Any) -> Iterable[Any]:
        refuse_read_once(dataset.dataset, "the loader's dataset")
        refuse_read_once(dataset.sampler, "the loader's sampler")
        refuse_read_once(dataset.batch_sampler, "the loader's batch sampler")
        return _read(dataset)

    def limit(self, dataset: Any, seconds: float) -> Limit | None:
        """The reading of records, or their collation; both measured here, in one process."""
        if _iterable(dataset) or not hasattr(dataset.dataset, "__getitem__"):
            return None
        size = dataset.batch_size
        try:
            records = min(len(dataset.dataset), size or 1, MOST_TIMED)
        except TypeError:
            return None
        if not size or not records:
            return None
        with generators_kept(dataset.generator):
            begun = time.monotonic()
            rows = []
            for index in range(records):
                rows.append(dataset.dataset[index])
                if time.monotonic() - begun > seconds:
                    break
            read = (time.monotonic() - begun) / len(rows) * size
            begun = time.monotonic()
            dataset.collate_fn(rows)
            collated = (time.monotonic() - begun) / len(rows) * size
        what = f"{type(dataset.dataset).__name__}.__getitem__" if read >= collated else "collate_fn"
        return Limit(what=what, per_batch_s=max(read, collated), workers=dataset.num_workers)


def _iterable(loader: Any) -> bool:
    torch = sys.modules["torch"]
    return isinstance(loader.dataset, torch.utils.data.IterableDataset)


def _read(loader: Any) -> Iterator[Any]:
    """The batches of a copy, so workers that persist are not those of the training."""
    own = copy.copy(loader)
    own.__dict__["_iterator"] = None
    generators = [loader.generator, getattr(loader.sampler, "generator", None)]
    with generators_kept(*generators):
        yield from own
