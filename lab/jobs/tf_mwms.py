"""A Keras 3 model in a custom training loop under MultiWorkerMirroredStrategy with RING collectives."""

from __future__ import annotations

import argparse
import json
import os

import tensorflow as tf

from lab import faults as fault


def main() -> None:
    options = parse()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING,
        timeout_seconds=options.timeout or None,
    )
    if options.register_timeout:
        limit_registration(options.register_timeout)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=ring)
    print(f"worker {rank}: {strategy.num_replicas_in_sync} replicas, tensorflow {tf.__version__}", flush=True)
    with fault.change("scope", strategy.scope, 0, rank)():
        model = build(fault.change("width", 32, 0, rank))
        if options.load_weights:
            model.load_weights(options.load_weights)
        if options.resume:
            tf.train.Checkpoint(model=model).restore(options.resume).assert_consumed()
            print(f"worker {rank}: restored {options.resume}", flush=True)
    batches = strategy.experimental_distribute_dataset(dataset(options, rank))

    def replica_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
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
            variable.value.assign_sub(0.1 * gradient)
        return loss

    @tf.function
    def train_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(replica_step, args=(inputs, labels))
        return strategy.reduce("mean", losses, axis=None)

    step = 0
    for inputs, labels in batches:
        fault.at(step, rank)
        inputs, labels = fault.change("batch", (inputs, labels), step, rank)
        loss = train_step(inputs, labels)
        step += 1
        if step % 20 == 0:
            print(f"worker {rank}: step {step} loss {float(loss):.4f}", flush=True)
        if step == options.steps:
            break
        if options.save and step % 40 == 0 and rank == 0:
            path = tf.train.Checkpoint(model=model).save(options.save)
            print(f"worker 0: saved {path}", flush=True)
    print(f"worker {rank}: training finished after {step} steps", flush=True)


def limit_registration(seconds: float) -> None:
    """Fail when the workers have not found each other after `seconds`; TensorFlow waits for an hour."""
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=int(1000 * seconds),
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)],
    )


def build(width: int) -> tf.keras.Model:
    """The classifier."""
    tf.keras.utils.set_random_seed(7)
    layers = tf.keras.layers
    return tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(width, "relu"), layers.Dense(10)])


def dataset(options: argparse.Namespace, rank: int) -> tf.data.Dataset:
    """Batches of points; the label is the largest coordinate. From TFRecords where they are given."""
    if options.records:
        parts = {"x": tf.io.FixedLenFeature([16], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}

        def parse_example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            example = tf.io.parse_single_example(record, parts)
            return example["x"], example["y"]

        data = tf.data.TFRecordDataset(options.records).map(parse_example)
    else:
        inputs = tf.random.stateless_normal((options.samples, 16), (7, 7))
        labels = tf.argmax(inputs[:, :10], axis=1)
        data = tf.data.Dataset.from_tensor_slices((inputs, labels))
    data = fault.change("data", data.repeat(options.epochs).batch(options.batch), 0, rank)
    off = tf.data.Options()
    off.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[options.shard]
    return data.with_options(off)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--shard", default="DATA", help="the auto-shard policy")
    parser.add_argument("--timeout", type=float, default=0.0, help="of collectives, in seconds")
    parser.add_argument("--register-timeout", type=float, default=0.0, help="of the workers' meeting")
    parser.add_argument("--records", nargs="*", help="TFRecord files to train on")
    parser.add_argument("--save", help="prefix of the checkpoints to write")
    parser.add_argument("--resume", help="the checkpoint to go on from")
    parser.add_argument("--load-weights", help="a .weights.h5 file to start from")
    parser.add_argument(
        "--check-numerics", action="store_true", help="fail at the first loss that is no number"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
