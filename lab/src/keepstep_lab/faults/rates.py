# SPDX-License-Identifier: Apache-2.0
"""Numbers that go wrong without bad data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class LargeRate(Fault):
    """The learning rate is far too large."""

    RATE = "30"

    def prepare(self, run: Run) -> None:
        run.give_all("--rate", self.RATE)

    def proof(self, run: Run) -> str:
        return f"every rank was started with --rate {self.RATE}"


class NoRate(LargeRate):
    """The learning rate is zero: nothing is learnt."""

    RATE = "0"


class LocalNan(Fault):
    """The rank takes the logarithm of a negative number in a computation of its own (JAX)."""

    def at(self, step: int, rank: int) -> None:
        import jax.numpy as jnp

        print("log-likelihood", jnp.log(jnp.float32(-1.0)))
