# SPDX-License-Identifier: Apache-2.0
"""Advice is for the framework of the run: no `torch.*` for TensorFlow or JAX, in any recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.core.finding import Fix
from keepstep.core.frameworks import is_for
from keepstep.lab.record import replay
from keepstep.lab.scenarios import SCENARIOS

FOLDER = Path(__file__).resolve().parents[1] / "recordings"
RECORDED = [scenario for scenario in SCENARIOS.values() if (FOLDER / scenario.name).exists()]


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: scenario.name)
def test_no_recording_gets_advice_for_another_framework(scenario) -> None:
    """Where the log never names its framework, a fix for one of them must say in words for which."""
    for finding in replay(FOLDER / scenario.name).findings:
        for fix in finding.fixes:
            meant = is_for(fix)
            assert not meant or scenario.framework in meant or is_for(Fix(do=fix.do)), (finding.rule, fix)


def test_what_a_fix_is_for_is_told_by_its_words() -> None:
    assert is_for(Fix(do="see which", command="TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun train.py")) == {"torch"}
    assert is_for(Fix(do="use the loop of tf.distribute")) == {"tensorflow"}
    assert is_for(Fix(do="join first", command="jax.distributed.initialize()")) == {"jax"}
    assert is_for(Fix(do="free the port", command="ss -ltnp")) == frozenset()
