"""Not a fault: sound TFRecord files to train on, one per worker, and a place for checkpoints."""

from pathlib import Path

from lab.launch import Run


def prepare(run: Run) -> None:
    files = write(run.work, run.scenario.ranks)
    for args in run.args:
        args += ["--shard", "FILE", "--records", *map(str, files), "--save", str(run.work / "ckpt")]


def write(folder: Path, count: int) -> list[Path]:
    """`count` files of 512 examples."""
    import numpy as np
    import tensorflow as tf

    files = [folder / f"points-{index:02d}.tfrecord" for index in range(count)]
    for index, path in enumerate(files):
        inputs = np.random.default_rng(index).normal(size=(512, 16)).astype("float32")
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in inputs:
                x = tf.train.Feature(float_list=tf.train.FloatList(value=row))
                y = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(row[:10].argmax())]))
                example = tf.train.Example(features=tf.train.Features(feature={"x": x, "y": y}))
                writer.write(example.SerializeToString())
    return files
