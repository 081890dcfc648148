# SPDX-License-Identifier: Apache-2.0
"""The replica function adds its own replica's mean to a weight: the replicas drift apart, nothing refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run

LOSS = "            loss = tf.reduce_mean(losses)\n"
WRONG = "model.layers[-1].bias.value.assign_add(0.001 * tf.reduce_mean(logits, axis=0))"


def prepare(run: Run) -> None:
    _script.edit(run, LOSS, f"{LOSS}            {WRONG}\n")


def proof(run: Run) -> str:
    return _script.proof(run, WRONG)
