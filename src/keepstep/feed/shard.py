# SPDX-License-Identifier: Apache-2.0
"""One rank's share of the data, epoch by epoch.

All ranks agree on one order per epoch, from one seed. A step takes the next ``ranks * batch`` places of it, and each
rank every ``ranks``-th of these. So a run can go on at any place with any number of ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from keepstep.feed.epoch_order import Order, Quarantine
from keepstep.feed.own_rank import whoami
from keepstep.feed.permutation import key_of

REMAINDERS = ("pad", "drop", "carry")
STATE = 1
"""The version of a saved state."""
BUFFER = 10_000
"""Records that tf.data shuffles at a time."""
_SEEDS = 1 << 31


class Shard(Sequence[int]):
    """The record numbers that this rank is fed in the current epoch, in order. Make one with :func:`keepstep.shard`."""

    def __init__(
        self,
        records: int,
        *,
        batch: int,
        rank: int,
        ranks: int,
        seed: int = 0,
        shuffle: bool = True,
        remainder: str = "pad",
        skip: Iterable[int] = (),
        source: Any = None,
    ) -> None:
        if batch < 1 or ranks < 1:
            raise ValueError(f"batch and ranks must be at least 1, not {batch} and {ranks}")
        if not 0 <= rank < ranks:
            raise ValueError(f"rank must be from 0 to {ranks - 1}, not {rank}")
        if remainder not in REMAINDERS:
            raise ValueError(f"remainder must be one of {', '.join(REMAINDERS)}, not {remainder!r}")
        self._quarantine = Quarantine(records, skip)
        if not self._quarantine.left:
            raise ValueError(f"no record is left to feed: {records} in all, {len(self._quarantine.skipped)} to skip")
        self.batch, self.rank, self.ranks = batch, rank, ranks
        self.seed, self.shuffle, self.remainder = seed, shuffle, remainder
        self.source = source
        self._anchor = (0, 0)
        self._orders: dict[int, Order] = {}
        self.set_epoch(0)

    # which places of the order

    @property
    def records(self) -> int:
        """The records that are fed per epoch, over all ranks: without those to skip."""
        return self._quarantine.left

    @property
    def skipped(self) -> tuple[int, ...]:
        return self._quarantine.skipped

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch: its beginning, or where it was resumed."""
        if epoch < 0:
            raise ValueError(f"epoch must be at least 0, not {epoch}")
        self._epoch = epoch
        self.first, self.last = self._span(epoch)

    def _span(self, epoch: int) -> tuple[int, int]:
        """The places that an epoch feeds, over all ranks. With "carry" they are counted over all epochs."""
        whole, step = self.records, self.ranks * self.batch
        resumed, at = self._anchor
        if self.remainder == "carry":
            begin = resumed * whole + at
            starts = [begin + max(0, -(-(each * whole - begin) // step)) * step for each in (epoch, epoch + 1)]
            return starts[0], starts[1]
        first = at if epoch == resumed else 0
        if self.remainder == "drop":
            return first, first + (whole - first) // step * step
        return first, first + -(-(whole - first) // self.ranks) * self.ranks

    def _record(self, place: int) -> int:
        if self.remainder == "carry":
            epoch, place = divmod(place, self.records)
        else:
            epoch, place = self._epoch, place % self.records
        order = self._orders.get(epoch)
        if order is None:
            self._orders.clear()
            order = self._orders[epoch] = Order(self._quarantine, self.seed, epoch, self.shuffle)
        return order[place]

    # this rank's part of them

    def __len__(self) -> int:
        return (self.last - self.first) // self.ranks

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self._own(each) for each in range(len(self))[index]]
        return self._own(range(len(self))[index])

    def _own(self, index: int) -> int:
        return self._record(self.first + index * self.ranks + self.rank)

    def __iter__(self) -> Iterator[int]:
        return (self._own(index) for index in range(len(self)))

    @property
    def steps(self) -> int:
        """The steps that are left in this epoch: the same on every rank."""
        return -(-len(self) // self.batch)

    def batches(self) -> Iterator[list[int]]:
        """The record numbers of each step. With "pad", the last batch may be smaller, by as much on every rank."""
        for start in range(0, len(self), self.batch):
            yield self[start : start + self.batch]

    # going on later

    def state(self, step: int) -> dict[str, Any]:
        """Where the training is after ``step`` steps of this epoch, for a checkpoint. The same on every rank.

        The count is the caller's: a loader with workers has read further than the training has come.
        """
        if not 0 <= step <= self.steps:
            raise ValueError(f"step must be from 0 to {self.steps}, not {step}")
        place = min(self.first + step * self.ranks * self.batch, self.last)
        epoch = self._epoch
        if self.remainder == "carry":
            epoch, place = divmod(place, self.records)
        else:
            place = min(place, self.records)
            if step == self.steps:
                epoch, place = epoch + 1, 0
        return {
            "version": STATE,
            "epoch": epoch,
            "place": place,
            "records": self._quarantine.records,
            "skip": self._quarantine.digest,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "remainder": self.remainder,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`state` was taken, with the same data and seed, and any number of ranks and batch size."""
        version = state.get("version") if isinstance(state, Mapping) else None
        if version != STATE:
            raise ValueError(f"this state has version {version}; this keepstep reads version {STATE}")
        own = self.state(0)
        for name in ("records", "skip", "seed", "shuffle", "remainder"):
            if state.get(name) != own[name]:
                raise ValueError(f"the state was saved with {name}={state.get(name)!r}, but this is {own[name]!r}")
        epoch, place = state.get("epoch"), state.get("place")
        if not isinstance(epoch, int) or not isinstance(place, int) or epoch < 0 or not 0 <= place <= self.records:
            raise ValueError(f"the state names no place in the data: epoch {epoch!r}, place {place!r}")
        self._anchor = (epoch, place)
        self.set_epoch(epoch)

    # tf.data

    def dataset(self, source: Any = None) -> Any:
        """This epoch's share of a ``tf.data.Dataset``, in batches. ``source`` yields all records in a fixed order."""
        return _share_of(self.source if source is None else source, self)


def shard(
    source: Any,
    *,
    batch: int,
    rank: int | None = None,
    ranks: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    remainder: str = "pad",
    skip: Iterable[int] = (),
    records: int | None = None,
) -> Shard:
    """Divide records among ranks: balanced, of the same length on every rank, shuffled per epoch from one seed.

    ``source`` is a number of records, anything with a length, or a ``tf.data.Dataset``. ``rank`` and ``ranks`` come
    from the process group or the launcher if they are not given; with tensor or pipeline parallelism, give those of
    the data-parallel group. ``skip`` names records that are never fed.

    ``remainder`` says what happens to records that do not divide: "pad" repeats at most ``ranks - 1`` of them, "drop"
    leaves out what fills no batch, "carry" feeds it at the beginning of the next epoch.
    """
    if records is None:
        records = _length(source)
    if (rank is None) != (ranks is None):
        raise ValueError("give both rank and ranks, or neither")
    if rank is None or ranks is None:
        rank, ranks = whoami()
    made = Shard(
        records,
        batch=batch,
        rank=rank,
        ranks=ranks,
        seed=seed,
        shuffle=shuffle,
        remainder=remainder,
        skip=skip,
        source=source,
    )
    made.set_epoch(epoch)
    return made


def _length(source: Any) -> int:
    if isinstance(source, int):
        return source
    cardinality = getattr(source, "cardinality", None)
    if callable(cardinality):
        known = int(cardinality())
        if known < 0:
            raise ValueError("the length of this tf.data.Dataset is not known: give records=")
        return known
    try:
        return len(source)
    except TypeError:
        raise ValueError(f"a {type(source).__name__} has no length: give records=") from None


def _share_of(source: Any, shard: Shard) -> Any:
    """The batches of one rank in the shard's current epoch.

    A ``tf.data.Dataset`` has no random access: every rank reads all records and keeps its own. The order is that of
    the source, shuffled within a buffer by a seed that is the same on all ranks.
    """
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(source, tf.data.Dataset):
        raise TypeError(f"a tf.data.Dataset is needed here, not a {type(source).__name__}")
    kept = _without(tf, source, shard.skipped)

    def of_epoch(epoch: int) -> Any:
        if not shard.shuffle:
            return kept
        seed = key_of(shard.seed, epoch) % _SEEDS
        return kept.shuffle(min(BUFFER, shard.records), seed=seed, reshuffle_each_iteration=False)

    if shard.remainder == "carry":
        epochs = range(shard.first // shard.records, -(-shard.last // shard.records))
        first = shard.first % shard.records
        whole = kept.take(0)
        for epoch in epochs:
            whole = whole.concatenate(of_epoch(epoch))
    else:
        first, whole = shard.first, of_epoch(shard.epoch)
        missing = shard.last - shard.records
        while missing > 0:
            whole = whole.concatenate(of_epoch(shard.epoch).take(missing))
            missing -= shard.records
    own = whole.skip(first).take(shard.last - shard.first).shard(shard.ranks, shard.rank)
    batches = own.batch(shard.batch, drop_remainder=shard.remainder != "pad")
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return (
        batches.apply(tf.data.experimental.assert_cardinality(shard.steps))
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def _without(tf: Any, source: Any, skipped: tuple[int, ...]) -> Any:
    """The dataset without some of its elements, by number."""
    if not skipped:
        return source
    numbers = tf.constant(skipped, tf.int64)

    def keep(number: Any, element: Any) -> Any:
        place = tf.searchsorted(numbers, [number])[0]
        found = tf.gather(numbers, tf.minimum(place, len(skipped) - 1))
        return tf.not_equal(found, number)

    return source.enumerate().filter(keep).map(lambda number, element: element)
