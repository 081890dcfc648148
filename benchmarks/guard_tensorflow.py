# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow step of about 10 ms under MultiWorkerMirroredStrategy on two processes, with and without the guard, in
turns.

python -m benchmarks.guard_tensorflow             the row of the table
python -m benchmarks.guard_tensorflow --more      also the creation of a model of 200 variables
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.hooks import HEADING, PAIRS, row, serve
from benchmarks.in_turns import Ranks
from keepstep.sources.host.ports import free_ports

ITSELF = [sys.executable, "-m", "benchmarks.guard_tensorflow"]
BAR = 0.005
VARIABLES = 200
WIDTH, ROWS, LAYERS = 256, 224, 4


def main(pairs: int = PAIRS) -> str:
    return row("tensorflow, two ranks on CPU", lambda folder: start("on", folder), bar=BAR, pairs=pairs)


def variables_ms() -> tuple[float, float]:
    """Milliseconds that two ranks take to create a variable, without and with the guard."""
    found = []
    for mode in ("off", "on"):
        with tempfile.TemporaryDirectory() as folder:
            job = start(mode, Path(folder), "--variables")
            found.append(max(answer[0] for answer in job.answers()) / VARIABLES * 1000)
            job.end()
    return found[0], found[1]


def _environment(mode: str, folder: Path) -> dict[str, str]:
    env = {**os.environ, "KEEPSTEP": mode, "KEEPSTEP_DIR": str(folder / mode)}
    return env | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}


def start(mode: str, folder: Path, what: str = "--train") -> Ranks:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    configs = [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}) for rank in range(2)]
    return Ranks([([*ITSELF, what], {**_environment(mode, folder), "TF_CONFIG": config}) for config in configs])


def train() -> None:
    """A rank. Each step has a batch, a backward pass, an update and a metric."""
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    generator = np.random.default_rng(0)
    with strategy.scope():
        weights = [
            tf.Variable(generator.normal(size=(WIDTH, WIDTH), scale=0.05).astype("float32"), name=f"layer_{number}")
            for number in range(LAYERS)
        ]
    data = tf.data.Dataset.from_tensor_slices(generator.normal(size=(20 * ROWS, WIDTH)).astype("float32"))
    batches = iter(data.batch(ROWS, drop_remainder=True).map(lambda x: (x, x)).repeat())

    def replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            out = x
            for weight in weights:
                out = tf.tanh(out @ weight)
            loss = tf.reduce_mean(tf.square(out - y))
        gradients = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("mean", strategy.run(replica, args=(x, y)), axis=None)

    def take(steps: int) -> None:
        for _ in range(steps):
            train_step(*next(batches))

    serve("tensorflow", take)


def make_variables() -> None:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        tf.Variable(tf.zeros([4]), name="first")
        began = time.perf_counter()
        for number in range(VARIABLES):
            tf.Variable(tf.zeros([4, 4]), name=f"variable_{number}")
    print(f"TOOK {time.perf_counter() - began}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    for name in ("more", "train", "variables"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    if options.train:
        train()
    elif options.variables:
        make_variables()
    else:
        print(HEADING)
        print(main(options.pairs))
        if options.more:
            print("a variable of {}: {:.2f} ms without, {:.2f} ms with the guard".format(VARIABLES, *variables_ms()))
