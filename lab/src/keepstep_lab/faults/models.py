# SPDX-License-Identifier: Apache-2.0
"""Models and weights that differ between the ranks."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from . import Fault, tell

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class WiderModel(Fault):
    """The rank builds the model with another hidden width."""

    def change_model(self, model: Any) -> Any:
        return type(model)(width=96)


class OtherWidth(Fault):
    """One rank builds the model with another hidden width: its gradients have other shapes."""

    def change_width(self, width: int) -> int:
        return width + 8


class DoublePrecision(Fault):
    """One rank builds its Keras model in double precision."""

    def change_width(self, width: int) -> int:
        import tensorflow as tf

        tf.keras.backend.set_floatx("float64")
        return width


class UnusedHead(Fault):
    """The training leaves a part of the model out of the loss: its parameters get no gradient."""

    def change_auxiliary(self, used: bool) -> bool:
        return False


class FlippedBit(Fault):
    """One bit of one weight of the rank's replica flips, as by a fault of its memory; the others keep theirs."""

    BIT = 20
    _flipped: list[float] = []

    def change_weights(self, weights: Any) -> Any:
        if not self._flipped:
            bits = weights[0].data.view(-1).numpy().view("int32")
            before = float(weights[0].data.view(-1)[5])
            bits[5] ^= 1 << self.BIT
            self._flipped.append(before)
            tell(f"weight 5 went from {before:.6f} to {float(weights[0].data.view(-1)[5]):.6f}")
        return weights

    def proof(self, run: Run) -> str:
        for _, what in run.strikes():
            if what.startswith("weight "):
                return what
        raise run.unproven("no bit flipped")


class JaxFlippedBit(FlippedBit):
    """One bit of one weight of the rank's replica flips (JAX), as by a fault of its memory."""

    def change_weights(self, weights: Any) -> Any:
        if self._flipped:
            return weights
        import jax
        import numpy as np

        replica = np.array(weights["w1"].addressable_data(0))
        before = float(replica[0, 0])
        replica.view("int32")[0, 0] ^= 1 << self.BIT
        self._flipped.append(before)
        tell(f"weight 0 went from {before:.6f} to {float(replica[0, 0]):.6f}")
        sharding = weights["w1"].sharding
        local = [jax.device_put(replica, device) for device in sharding.addressable_devices]
        flipped = jax.make_array_from_single_device_arrays(replica.shape, sharding, local)
        return {**weights, "w1": flipped}


class FlippedWeight(Fault):
    """One bit of one weight flips in one replica's memory; no other replica hears of it."""

    def at(self, step: int, rank: int) -> None:
        import numpy as np
        import tensorflow as tf

        model = next(each for each in gc.get_objects() if issubclass(type(each), tf.keras.Model))
        kernel = model.trainable_variables[0].value.values[0]
        weights = kernel.numpy()
        weights.reshape(-1).view(np.uint32)[5] ^= 1 << 20
        kernel.assign(weights)
