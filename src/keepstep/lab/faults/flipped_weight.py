# SPDX-License-Identifier: Apache-2.0
"""One bit of one weight flips in one replica's memory; no other replica hears of it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import numpy as np
    import tensorflow as tf

    model = next(each for each in gc.get_objects() if issubclass(type(each), tf.keras.Model))
    kernel = model.trainable_variables[0].value.values[0]
    weights = kernel.numpy()
    weights.reshape(-1).view(np.uint32)[5] ^= 1 << 20
    kernel.assign(weights)


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
