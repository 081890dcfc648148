# SPDX-License-Identifier: Apache-2.0
"""Each worker reads its own files, from a list that Python shuffles."""

import glob
import random

import tensorflow as tf


def files_of(worker, workers):
    names = glob.glob("data/*.tfrecord")
    names.sort()
    data = tf.data.Dataset.from_tensor_slices(names)
    data = data.shard(workers, worker)
    return data.interleave(tf.data.TFRecordDataset, cycle_length=4)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def dataset_fn(context):
        data = files_of(context.input_pipeline_id, context.num_input_pipelines)
        return data.shuffle(1000).batch(context.get_per_replica_batch_size(64)).prefetch(2)

    for batch in strategy.distribute_datasets_from_function(dataset_fn):
        print(batch)
        break
    print(random.random())


if __name__ == "__main__":
    main()
