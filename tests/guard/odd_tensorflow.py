# SPDX-License-Identifier: Apache-2.0
"""What programs may do with TensorFlow and Keras, as odd as it may be: prints what comes out, or what was raised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
Dataset, keras = tf.data.Dataset, tf.keras
ROWS, WANTED = np.linspace(0, 1, 32, dtype="float32").reshape(8, 4), np.ones((8, 2), "float32")


def attempt(name: str, call: Callable[[], Any]) -> None:
    try:
        print(name, [np.asarray(each).tolist() for each in tf.nest.flatten(call())])
    except Exception as error:
        print(name, "raised", type(error).__name__)


class Own(keras.Model):  # type: ignore[misc]
    """Several outputs, and a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = keras.layers.Dense(2), keras.layers.Dense(1)

    def call(self, rows: Any) -> Any:
        return {"one": self.one(rows), "two": self.two(rows)}

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            out = self(data[0], training=True)
            loss = tf.reduce_mean((out["one"] - data[1]) ** 2) + tf.reduce_mean(out["two"] ** 2)
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}


def model(make: Callable[[], Any] = lambda: keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])) -> Any:
    keras.utils.set_random_seed(1)
    made = make()
    made.compile("sgd", "mse")
    return made


def fitted(made: Any, **more: Any) -> Any:
    return list(made.fit(ROWS, WANTED, epochs=2, batch_size=4, verbose=0, **more).history.values())


def used() -> Any:
    made = model()
    found = [fitted(made), made.evaluate(ROWS, WANTED, verbose=0), made.predict(ROWS, verbose=0)]
    return [found, made.train_on_batch(ROWS, WANTED)]


def loop(**options: Any) -> Any:
    weights, optimizer = tf.Variable(tf.ones((4, 2))), keras.optimizers.SGD(0.1)

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((rows @ weights - WANTED) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return {"loss": loss, "none": None, "several": (loss, [loss])}

    run = tf.function(step, **options) if options else step
    return [run(tf.constant(ROWS))["loss"] for _ in range(4)]


def odd_results() -> Any:
    weights = tf.Variable(1.0)

    @tf.function
    def run(rows: Any) -> Any:
        weights.assign_sub(0.1 * tf.reduce_sum(rows))
        ragged = tf.RaggedTensor.from_row_lengths(tf.range(3.0), [1, 2])
        return ragged, tf.sparse.from_dense([1.0, 0.0]), tf.constant(["text"]), None, Dataset.range(2)

    return [run(tf.ones(2))[0].values for _ in range(3)]


def with_strategy(strategy: Any) -> Any:
    with strategy.scope():
        made, weights = model(), tf.Variable(tf.ones((4, 2)), aggregation=tf.VariableAggregation.MEAN)

    def one(rows: Any) -> Any:
        weights.assign_sub(0.1 * tf.ones((4, 2)) * tf.reduce_mean(rows))
        return tf.reduce_sum(rows)

    step = tf.function(lambda rows: strategy.reduce("SUM", strategy.run(one, (rows,)), None))
    batches = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(ROWS).batch(4))
    attempt("runs nothing", lambda: str(strategy.run(lambda: None)))
    attempt("runs what raises", lambda: strategy.run(lambda: 1 / 0))
    attempt("runs without a function", lambda: strategy.run())
    return [fitted(made), [step(rows) for rows in batches], [strategy.run(one, (rows,)) for rows in batches] and 0]


def main() -> None:
    files = Path(tempfile.mkdtemp())
    attempt("keras", used)
    attempt("own model", lambda: fitted(model(Own)))
    for given in ([], (keras.callbacks.TerminateOnNaN(),), {"one": keras.callbacks.TerminateOnNaN()}, [3], object()):
        attempt(f"callbacks as {type(given).__name__}", lambda given=given: fitted(model(), callbacks=given))
    attempt("wrong call", lambda: model().fit(ROWS, WANTED, banana=1))
    attempt("not numbers", lambda: model().fit(ROWS * np.nan, WANTED, epochs=5, verbose=0).history["loss"])
    for name in (None, "null\0byte.weights.h5", str(files / "absent.weights.h5")):
        attempt("wrong file", lambda name=name: model().load_weights(name))
    for options in ({}, {"jit_compile": True}, {"reduce_retracing": True}):
        attempt(f"loop {options}", lambda options=options: loop(**options))
    attempt("odd results", odd_results)
    ragged = Dataset.from_tensor_slices(tf.ragged.constant([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]))
    attempt("ragged", lambda: [each.nrows() for each in ragged.batch(2)])
    attempt("sparse", lambda: [tf.sparse.to_dense(each) for each in Dataset.from_tensors(tf.sparse.eye(2))])
    attempt("words", lambda: [len(each.numpy()) for each in Dataset.from_tensor_slices(["a", "bb"])])
    attempt("nested", lambda: [each["a"][0] for each in Dataset.from_tensor_slices({"a": ([1, 2], ["x", "y"])})])
    attempt("datasets", lambda: [len(list(each)) for each in Dataset.range(5).window(2)])
    attempt("failing", lambda: list(Dataset.from_tensors(np.nan).map(lambda n: tf.debugging.check_numerics(n, "odd"))))
    attempt("one device", lambda: with_strategy(tf.distribute.OneDeviceStrategy("CPU:0")))
    attempt("two devices", lambda: with_strategy(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])))
    attempt("no servers", lambda: tf.distribute.ParameterServerStrategy(None))
    attempt("checkpoint", lambda: tf.train.Checkpoint(weights=tf.Variable(1.0)).save(str(files / "one")) and 0)
    attempt("no checkpoint", lambda: tf.train.Checkpoint().restore(str(files / "two")))
    raise SystemExit(3)


if __name__ == "__main__":
    main()
