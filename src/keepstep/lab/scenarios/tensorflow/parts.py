# SPDX-License-Identifier: Apache-2.0
"""What the TensorFlow scenarios share."""

from __future__ import annotations

from functools import partial
from typing import Any

from keepstep.lab.scenario import Scenario

LEGACY = {"TF_USE_LEGACY_KERAS": "1"}
LONG = ("--steps", "20000", "--epochs", "2000")
"""Arguments of a job that a fault from outside surely meets alive."""

mwms = partial(Scenario, framework="tensorflow", job="tf_mwms")
fit = partial(Scenario, framework="tensorflow", job="tf_keras_fit")
mirrored = partial(Scenario, framework="tensorflow", job="tf_mirrored", ranks=1)
ps = partial(Scenario, framework="tensorflow", job="tf_ps", ranks=3, roles=("chief", "worker", "ps"))
on_worker_1: dict[str, Any] = {"strike_ranks": (1,), "root_ranks": (1,), "strike_step": 30}
four: dict[str, Any] = {"ranks": 4, "clocks": ("+0", "+41", "-17", "Asia/Tokyo")}
"""Four workers whose clocks differ."""
