# SPDX-License-Identifier: Apache-2.0
"""A Keras 3 model in a custom training loop under MultiWorkerMirroredStrategy with RING collectives."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
from pathlib import Path

import faults as fault
import tensorflow as tf

WIDTH = 32


def main() -> None:
    options = parse()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING,
        timeout_seconds=options.timeout or None,
    )
    fault.change("start", None, 0, rank)
    if options.register_timeout:
        limit_registration(options.register_timeout)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    print(f"worker {rank}: {strategy.num_replicas_in_sync} replicas, tensorflow {tf.__version__}", flush=True)
    with strategy.scope():
        model = build(fault.change("width", 64, 0, rank))
        seen = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoint = tf.train.Checkpoint(model=model, seen=seen)
    if options.load_weights:
        model.load_weights(options.load_weights)
    if options.resume:
        checkpoint.restore(options.resume).assert_consumed()
        print(f"worker {rank}: resumed from {options.resume} at step {int(seen.numpy())}", flush=True)
    batches = dataset(options, rank, strategy.num_replicas_in_sync)
    if not options.own_shard:
        batches = strategy.experimental_distribute_dataset(batches)

    def replica_step(inputs: tf.Tensor, labels: tf.Tensor, rate: float) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
            if options.check_numerics:
                loss = tf.debugging.check_numerics(loss, "loss")
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce("mean", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.value.assign_sub(rate * gradient)
        return loss

    @tf.function
    def train_step(inputs: tf.Tensor, labels: tf.Tensor, rate: float) -> tf.Tensor:
        losses = strategy.run(replica_step, args=(inputs, labels, rate))
        return strategy.reduce("mean", losses, axis=None)

    @tf.function
    def evaluate(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        def hits(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(model(x), 1), y), tf.float32))

        return strategy.reduce("mean", strategy.run(hits, args=(inputs, labels)), axis=None)

    step = first = int(seen.numpy())
    for inputs, labels in batches:
        if options.watchdog:
            faulthandler.dump_traceback_later(options.watchdog, exit=True)
        fault.at(step, rank)
        inputs, labels = fault.change("batch", (inputs, labels), step, rank)
        loss = train_step(inputs, labels, options.rate)
        step += 1
        if step % 20 == 0 or step == first + 1:
            print(f"worker {rank}: step {step} loss {float(loss):.4f}{memory(options)}", flush=True)
        if options.evaluate and step % options.evaluate == 0:
            accuracy = evaluate(inputs, labels)
            print(f"worker {rank}: evaluation at step {step}: accuracy {float(accuracy):.3f}", flush=True)
        if options.save and step % options.save_every == 0 and rank == 0:
            seen.assign(step)
            path = checkpoint.save(fault.change("save", options.save, step, rank))
            print(f"worker 0: saved {path}", flush=True)
        if step - first == options.steps:
            break
    print(f"worker {rank}: training finished after {step} steps", flush=True)


def memory(options: argparse.Namespace) -> str:
    """What this process holds, where it was asked for."""
    if not options.log_memory:
        return ""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return f" rss {pages * resource.getpagesize() >> 20} MB"


def limit_registration(seconds: float) -> None:
    """Fail when the workers have not found each other after ``seconds``; TensorFlow waits for an hour."""
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=int(1000 * seconds),
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)],
    )


def build(width: int = 64) -> tf.keras.Model:
    """The classifier."""
    tf.keras.utils.set_random_seed(7)
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input((WIDTH,)), layers.Dense(width, "relu"), layers.Dense(10)])


def dataset(options: argparse.Namespace, rank: int, workers: int) -> tf.data.Dataset:
    """Batches of points from TFRecord files, one or more a worker; the label is the largest coordinate."""
    parts = {"x": tf.io.FixedLenFeature([WIDTH], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = [f"{options.data}/points-{index:02d}.tfrecord" for index in range(options.files or workers)]
    batch = options.batch
    if options.own_shard:
        files, batch = files[rank::workers], options.batch // workers

    def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, parts)
        return example["x"], example["y"]

    data = tf.data.TFRecordDataset(files).map(parse_example).repeat(options.epochs)
    data = fault.change("data", data, 0, rank).batch(batch, drop_remainder=options.drop_remainder)
    if options.static_batch:
        data = data.map(lambda x, y: (tf.ensure_shape(x, (batch, WIDTH)), y))
    policy = tf.data.Options()
    policy.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[options.shard]
    return data.with_options(policy)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("KEEPSTEP_LAB_DATA", "data"), help="folder of TFRecord files")
    parser.add_argument("--files", type=int, default=0, help="how many of them; one a worker unless told")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="rows of all workers together")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--shard", default="FILE", help="the auto-shard policy")
    parser.add_argument("--own-shard", action="store_true", help="each worker opens its own files only")
    parser.add_argument("--drop-remainder", action="store_true")
    parser.add_argument("--static-batch", action="store_true", help="all batches must be full")
    parser.add_argument("--evaluate", type=int, default=0, help="evaluate each so many steps")
    parser.add_argument("--timeout", type=float, default=0.0, help="of collectives, in seconds")
    parser.add_argument("--register-timeout", type=float, default=0.0, help="of the workers' meeting")
    parser.add_argument("--save", help="prefix of the checkpoints to write")
    parser.add_argument("--save-every", type=int, default=40)
    parser.add_argument("--resume", help="the checkpoint to go on from")
    parser.add_argument("--load-weights", help="a .weights.h5 file to start from")
    parser.add_argument("--check-numerics", action="store_true", help="fail at the first loss that is no number")
    parser.add_argument(
        "--watchdog", type=float, default=0.0, help="seconds a step may take; then all stacks are printed"
    )
    parser.add_argument("--log-memory", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
