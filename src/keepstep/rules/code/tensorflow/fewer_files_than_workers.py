# SPDX-License-Identifier: Apache-2.0
"""COD233: auto-sharding by files has fewer files than workers."""

from __future__ import annotations

import ast
import re

from keepstep.rules.api import Cause, CodeAssigned, CodeCall, Confidence, EvidenceSet, Findings, Fix, Found, count, rule
from keepstep.rules.code._asking import Call
from keepstep.rules.code.tensorflow._cluster import hosts_of, written
from keepstep.rules.code.tensorflow._shards import policies
from keepstep.rules.code.tensorflow._tensorflow import MULTI, Distributed, config_set, distributed

_READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")


def _files(tf: Distributed, reader: Call) -> list[str]:
    """The names of files that are written in the program; none if they are not."""
    given = reader.fact.argument("filenames", 0)
    text = given.text if given is not None else ""
    values = [
        each.fact.value.text
        for each in tf.known.assigned_in_file(reader)
        if each.fact.target == text and each.fact.function == reader.fact.function
    ]
    try:
        found = ast.literal_eval(values[0] if len(values) == 1 else text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return []
    names = [found] if isinstance(found, str) else list(found) if isinstance(found, list | tuple) else []
    return [each for each in names if isinstance(each, str) and not re.search(r"[*?\[{]", each)]


def _workers(tf: Distributed, place: Call) -> int:
    """How many workers the program itself lists; two, where it says nothing: fewer would need no strategy."""
    texts = [written(tf, each, each.fact.value) for each in config_set(tf) if each.origin.source == place.origin.source]
    return max((len(hosts_of(text)) for text in texts), default=0) or 2


@rule(
    id="COD233",
    cause=Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
    needs=(CodeCall, CodeAssigned),
    confidence=Confidence.SUPPORTED,
)
def fewer_files_than_workers(seen: EvidenceSet) -> Findings:
    """The auto-shard policy is FILE, and there are fewer files than workers.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.TFRecordDataset(["train.tfrecord"]).batch(8)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.FILE
    )
    batches = strategy.experimental_distribute_dataset(dataset.with_options(options))
    ```

    ## Why it happens
    With FILE each worker reads whole files. Workers without a file have no data: TensorFlow raises an error, or they
    end at once while the others wait for them.

    ## How we know
    The program sets FILE and uses MultiWorkerMirroredStrategy, and the names of all files are written in it. They are
    fewer than the workers in its TF_CONFIG; where the program lists none, fewer than two.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = tf.data.TFRecordDataset(["train.tfrecord"]).batch(8)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    batches = strategy.experimental_distribute_dataset(dataset.with_options(options))
    ```

    ## When this is wrong
    When the program runs with one worker only.
    """
    tf = distributed(seen)
    for each in policies(tf, "FILE"):
        if not tf.surely(each, MULTI):
            continue
        readers = tf.known.methods_in_file(each, *_READERS)
        listed = [_files(tf, reader) for reader in readers]
        if not readers or not all(listed):
            continue
        workers = _workers(tf, readers[0])
        for reader, files in zip(readers, listed, strict=True):
            if len(files) < workers:
                yield Found(
                    title=f"{count(len(files), 'file')} for {workers} workers, and each worker takes whole files",
                    because=f"`{each.fact.value.text}` (line {each.origin.line}) gives no data to a worker without a"
                    f" file; the dataset has {', '.join(files)}",
                    evidence=(reader, each),
                    fixes=(Fix(do="use AutoShardPolicy.DATA, or write at least one file per worker"),),
                )
