# SPDX-License-Identifier: Apache-2.0
"""Lines of progress, and lines that only look like them."""

from __future__ import annotations

import math

from keepstep.model.facts.training import StepSeen
from keepstep.parse.tools.programs.progress import PROGRESS


def read(text: str) -> StepSeen | None:
    return next((fact for each in PROGRESS if (fact := each.read(text)) is not None), None)


def test_a_loss_of_nan_is_kept():
    seen = read("step 30 loss nan lr 0.1")
    assert seen is not None
    assert seen.loss is not None
    assert math.isnan(seen.loss)
