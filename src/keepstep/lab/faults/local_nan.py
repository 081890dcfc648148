# SPDX-License-Identifier: Apache-2.0
"""The rank takes the logarithm of a negative number in a computation of its own (JAX)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keepstep.lab.run import Run


def at(step: int, rank: int) -> None:
    import jax.numpy as jnp

    print("log-likelihood", jnp.log(jnp.float32(-1.0)))


def proof(run: Run) -> str:
    return run.proof_that_it_struck()
