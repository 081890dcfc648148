# SPDX-License-Identifier: Apache-2.0
"""A training whose loss becomes NaN at step 40, in the way that is asked for. Run by test_tensorflow_not_finite.py."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

HOW, LOST_AT, LONGEST_S = sys.argv[1], 40, 60.0
one = tf.Variable(np.full((6, 8), 0.1, "float32"), name="one")
other = tf.Variable(np.full((8, 4), 0.2, "float32"), name="other")
counted = tf.Variable(0, name="counted", dtype=tf.int64)


@tf.function
def head(hidden: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("head"):
        shifted = tf.reduce_sum(tf.abs(hidden) @ other, axis=1) ** 2 + scale
        return tf.math.log(shifted)  # the first NaN, if that is below 0


@tf.function
def train_step(x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    counted.assign_add(1)
    with tf.GradientTape() as tape:
        hidden = tf.nn.dropout(tf.tanh(x @ one), 0.1)
        masked = tf.where(hidden > 2.0, tf.math.log(hidden - 1.5), 0.0)  # NaN where nobody looks, in every step
        loss = tf.reduce_mean(head(hidden, scale)) + tf.reduce_mean(masked)
    slopes = tape.gradient(loss, [one, other])
    for variable, slope in zip([one, other], slopes, strict=True):
        if HOW == "lost":
            slope += 0.0 * loss
        variable.assign_sub(0.01 * tf.where(tf.math.is_finite(slope), slope, 0.0) if HOW != "lost" else 0.01 * slope)
    return loss


def was_said() -> bool:
    notes = pathlib.Path(os.environ["KEEPSTEP_DIR"]).glob("*.notes.jsonl")
    return any(
        "FirstNonFinite" in text or "first non-finite value" in text for text in map(pathlib.Path.read_text, notes)
    )


tf.random.set_seed(1)
step, end = 0, time.monotonic() + LONGEST_S
while step < LOST_AT or not (was_said() or time.monotonic() > end):
    step += 1
    x = np.random.default_rng(step).normal(size=(5, 6)).astype("float32")
    loss = train_step(tf.constant(x), tf.constant(-1e6 if step >= LOST_AT else 1.0))
    time.sleep(0.05)
assert int(counted) == step, "a repeat has changed a variable"
print("ended with", float(loss), flush=True)
