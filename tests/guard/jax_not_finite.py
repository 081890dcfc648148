# SPDX-License-Identifier: Apache-2.0
"""A training whose loss becomes NaN at step 40, in the way that is asked for. Run by test_jax_not_finite.py."""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Any

import numpy as np

os.environ |= {"JAX_PLATFORMS": "cpu"}
import jax
import jax.numpy as jnp

HOW, LOST_AT = sys.argv[1], 40


def loss_of(weights: Any, x: Any, scale: Any) -> Any:
    with jax.named_scope("encoder"):
        hidden = jnp.tanh(x @ weights["one"])
    # NaN where nobody looks, in every step
    masked = 0.0 if HOW == "loop" else jnp.mean(jnp.where(hidden > 2.0, jnp.log(hidden - 1.5), 0.0))
    with jax.named_scope("head"):
        shifted = jnp.sum(jnp.abs(hidden) @ weights["other"], axis=1) ** 2 + scale
        if HOW == "slope":
            spread = jnp.sqrt(shifted - shifted + scale)  # its slope at 0 is infinite, and that times 0 is NaN
        elif HOW == "loop":
            spread = jax.lax.scan(lambda carry, each: (carry + jnp.log(each), None), 0.0, shifted)[0]
        else:
            spread = jnp.log(shifted)  # the first NaN, if that is below 0
    return jnp.mean(spread) + masked


donates = {"donate_argnums": (0,)} if HOW == "donated" else {}


@functools.partial(jax.jit, **donates)
def train_step(weights: Any, x: Any, scale: Any) -> Any:
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, scale)
    return {name: weights[name] - 0.01 * slopes[name] for name in weights}, loss


def main() -> None:
    weights = {"one": jnp.full((6, 8), 0.1), "other": jnp.full((8, 4), 0.2)}
    for step in range(1, 120):
        x = np.random.default_rng(step).normal(size=(5, 6)).astype("float32")
        if HOW == "batch" and step == LOST_AT:
            x[2, 3] = np.nan
        bad = {"slope": 0.0, "scale": np.nan, "batch": 1.0}.get(HOW, -1e6)
        is_lost = step == LOST_AT or (step > LOST_AT and HOW not in ("slope", "batch"))
        weights, loss = train_step(weights, jnp.asarray(x), jnp.float32(bad if is_lost else 1.0))
        time.sleep(0.05)
    print("ended with", float(loss), jax.config.jax_debug_nans, flush=True)


if __name__ == "__main__":
    main()
