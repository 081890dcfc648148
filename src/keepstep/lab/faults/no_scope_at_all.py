# SPDX-License-Identifier: Apache-2.0
"""Model, loss and optimizer are made outside the strategy's scope: the workers train apart, and nothing fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _script

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def prepare(run: Run) -> None:
    _script.edit(run, "    with strategy.scope():\n", "    with tf.name_scope('model'):\n")


def proof(run: Run) -> str:
    return _script.proof(run, "tf.name_scope('model')")
