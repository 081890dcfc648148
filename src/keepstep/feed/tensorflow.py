# SPDX-License-Identifier: Apache-2.0
"""A shard of a ``tf.data.Dataset``. Runs only where TensorFlow has been imported already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from keepstep.feed.permutation import key_of

if TYPE_CHECKING:
    from keepstep.feed.shard import Shard

BUFFER = 10_000
"""Records that tf.data shuffles at a time."""
_SEEDS = 1 << 31


def share_of(source: Any, shard: Shard, buffer: int = BUFFER) -> Any:
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
        return kept.shuffle(min(buffer, shard.records), seed=seed, reshuffle_each_iteration=False)

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
