# SPDX-License-Identifier: Apache-2.0
"""Trains on files that the workers share out among themselves.

From: https://github.com/huggingface/datasets/issues/5696
Shows: differs 2 ranks tensorflow: some files are read by both workers and some by neither
"""

import argparse
import os

import tensorflow as tf
from tensorflow.data import Dataset


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--seed", type=int, default=13)
    return parser.parse_args()


def write_files(folder, count):
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        with open(os.path.join(folder, f"{number:02d}.txt"), "w") as out:
            out.write(f"{number}\n")


def file_dataset(folder, args, context):
    names = sorted(tf.io.gfile.glob(os.path.join(folder, "*.txt")))
    files = Dataset.from_tensor_slices(names)
    files = files.shuffle(args.files).shard(context.num_input_pipelines, context.input_pipeline_id)  # BUG COD216
    lines = files.interleave(tf.data.TextLineDataset, cycle_length=2, num_parallel_calls=1)
    return lines.map(lambda line: tf.strings.to_number(line, tf.int32)).batch(4)


def main():
    args = parse_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    folder = os.path.join(os.environ.get("WORK_DIR", "."), f"rows-{resolver.task_id}")
    write_files(folder, args.files)
    dataset = strategy.distribute_datasets_from_function(lambda context: file_dataset(folder, args, context))
    seen = set()
    for batch in dataset:
        seen.update(strategy.gather(batch, axis=0).numpy().tolist())
    print("every file read:", seen == set(range(args.files)))


if __name__ == "__main__":
    main()
