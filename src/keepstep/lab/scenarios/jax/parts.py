# SPDX-License-Identifier: Apache-2.0
"""What the JAX scenarios share."""

from __future__ import annotations

from functools import partial
from typing import Any

from keepstep.lab.scenario import Scenario

CLOCKS = ("+0", "+41", "-17", "Asia/Tokyo")
"""Nobody's clock is right: seconds off, or another time zone."""
LONG = ("--steps", "20000")

multi = partial(Scenario, framework="jax", job="jax_multi", checkpoint="last.npz")
four: dict[str, Any] = {"ranks": 4, "clocks": CLOCKS}
on_process_1: dict[str, Any] = {"strike_ranks": (1,), "root_ranks": (1,), "strike_step": 30}
on_process_2: dict[str, Any] = {"strike_ranks": (2,), "root_ranks": (2,), "strike_step": 30}
