# SPDX-License-Identifier: Apache-2.0
"""Variables outside the strategy's scope, or changed inside a replica (TensorFlow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._script import ScriptMistake

if TYPE_CHECKING:
    pass


LOSS = "            loss = tf.reduce_mean(losses)\n"


class NoScope(ScriptMistake):
    """The model is built outside the strategy's scope."""

    edits = (
        (
            "    with strategy.scope():\n        model = build()\n        loss =",
            "    model = build()\n    with strategy.scope():\n        loss =",
        ),
    )
    shown = "    model = build()"


class NoScopeAtAll(ScriptMistake):
    """Model, loss and optimizer are made outside the strategy's scope: the workers train apart, and nothing fails."""

    edits = (("    with strategy.scope():\n", "    with tf.name_scope('model'):\n"),)


class AssignInReplica(ScriptMistake):
    """The replica function adds to a counter whose replicas' values are to be averaged; TensorFlow refuses that for
    integers."""

    MADE = "seen = tf.Variable(0, dtype=tf.int64, trainable=False"
    shown = "seen.assign_add(tf.shape(inputs, tf.int64)[0])"
    edits = ((MADE, MADE + ", aggregation=tf.VariableAggregation.MEAN"), (LOSS, f"{LOSS}            {shown}\n"))


class DesyncInReplica(ScriptMistake):
    """The replica function adds its own replica's mean to a weight: the replicas drift apart, nothing refuses it."""

    shown = "model.layers[-1].bias.value.assign_add(0.001 * tf.reduce_mean(logits, axis=0))"
    edits = ((LOSS, f"{LOSS}            {shown}\n"),)
