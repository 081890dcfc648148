"""ParameterServerStrategy with a ClusterCoordinator: chief, workers and parameter servers by TF_CONFIG."""

from __future__ import annotations

import tensorflow as tf

from lab import faults as fault

STEPS = 200


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        print(f"{resolver.task_type} {resolver.task_id} is serving", flush=True)
        server.join()
    else:
        coordinate(resolver)


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """What the chief does: hand out steps, wait for them."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((16, 10)))
        steps = tf.Variable(0, dtype=tf.int64)

    def make_data() -> tf.data.Dataset:
        inputs = tf.random.stateless_normal((1024, 16), (7, 7))
        return (
            tf.data.Dataset.from_tensor_slices((inputs, tf.argmax(inputs[:, :10], axis=1))).repeat().batch(32)
        )

    @tf.function
    def train_step(batches: tf.data.Iterator) -> tf.Tensor:
        inputs, labels = next(batches)
        with tf.GradientTape() as tape:
            logits = tf.matmul(inputs, weights)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        steps.assign_add(1)
        return loss

    batches = iter(coordinator.create_per_worker_dataset(make_data))
    for step in range(0, STEPS, 20):
        fault.at(step, 0)
        for _ in range(20):
            loss = coordinator.schedule(train_step, args=(batches,))
        coordinator.join()
        print(f"chief: step {int(steps)} loss {float(loss.fetch()):.4f}", flush=True)
    print("chief: training finished", flush=True)


if __name__ == "__main__":
    main()
