# SPDX-License-Identifier: Apache-2.0
"""The lookup tables of the model."""

import jax
import jax.numpy as jnp

LENGTH = 16
POSITIONS = jnp.arange(LENGTH, dtype=jnp.float32)  # BUG COD301


@jax.jit
def predict(scale, table, tokens):
    return scale * table[tokens].mean(axis=1)
