"""A regression on several workers, started by `launch.py`."""

import argparse
import json
import os
import time

import numpy as np
import tensorflow as tf

FEATURES = 8


def shard(folder, worker, workers):
    """The files of this worker: every so many of them."""
    names = sorted(os.listdir(folder))
    return [os.path.join(folder, name) for number, name in enumerate(names) if number % workers == worker]


def load(paths):
    tables = [np.loadtxt(path, delimiter=",", dtype=np.float32) for path in paths]
    table = np.concatenate(tables)
    return table[:, :FEATURES], table[:, FEATURES:]


def batches(x, y, size, epoch):
    order = np.random.default_rng(epoch).permutation(len(x))
    for begin in range(0, len(order) - size + 1, size):
        chosen = order[begin : begin + size]
        yield tf.constant(x[chosen]), tf.constant(y[chosen])


class Regression(tf.Module):
    def __init__(self, width):
        super().__init__()
        generator = np.random.default_rng(7)
        self.w1 = tf.Variable(generator.normal(size=(FEATURES, width)).astype(np.float32) * 0.3)
        self.b1 = tf.Variable(tf.zeros(width))
        self.w2 = tf.Variable(generator.normal(size=(width, 1)).astype(np.float32) * 0.3)
        self.b2 = tf.Variable(tf.zeros(1))

    def __call__(self, x):
        return tf.nn.tanh(x @ self.w1 + self.b1) @ self.w2 + self.b2


def wait_for(path):
    """Until the chief has written the model: nobody leaves before."""
    while not os.path.exists(path):
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--out", default="model")
    args = parser.parse_args()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers = strategy.num_replicas_in_sync
    x, y = load(shard(args.data, task["index"], workers))
    print(f"worker {task['index']}: {len(x)} rows", flush=True)
    with strategy.scope():
        model = Regression(args.width)
        optimizer = tf.keras.optimizers.SGD(args.rate)
        optimizer.build(model.trainable_variables)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(x, y):
        return strategy.run(replica_step, args=(x, y))

    done = f"{args.out}.{workers}"
    for epoch in range(args.epochs):
        losses = []
        for inputs, targets in batches(x, y, args.batch, epoch):
            losses.append(float(step(inputs, targets)))
        print(f"worker {task['index']}, epoch {epoch}: loss {np.mean(losses):.4f}", flush=True)
    if task["index"] == 0:
        np.savez(f"{args.out}.npz", *[each.numpy() for each in model.trainable_variables])
        with open(done, "w") as mark:
            mark.write("done")
    wait_for(done)


if __name__ == "__main__":
    main()
