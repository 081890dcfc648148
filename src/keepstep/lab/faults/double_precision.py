# SPDX-License-Identifier: Apache-2.0
"""One rank builds its Keras model in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def change_width(width: int) -> int:
    import tensorflow as tf

    tf.keras.backend.set_floatx("float64")
    return width


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
