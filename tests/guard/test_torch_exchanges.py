# SPDX-License-Identifier: Apache-2.0
"""Ranks that train together in ways of their own are not accused of training alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard.torch_ranks import ranks

pytestmark = [pytest.mark.frameworks("torch"), pytest.mark.slow]

SCRIPT = Path(__file__).with_name("torch_exchanges.py")


@pytest.mark.parametrize(
    "way",
    [
        "gradients by hand",
        *(
            pytest.param(way, marks=pytest.mark.long)
            for way in (
                "accumulated",
                "tensor parallel",
                "weights every 30 steps",
                "head on a frozen backbone",
                "sharded",
                "two models",
                "pipeline",
            )
        ),
    ],
)
def test_ranks_that_exchange_are_not_told_to_train_alone(tmp_path: Path, way: str) -> None:
    with ranks(tmp_path, way, script=SCRIPT) as run:
        assert run.ended() == [0, 0], run.logs()
        assert not run.notes("NeverExchanged", "ContractBroken")
        assert "keepstep" not in run.logs()
    assert not run.troubles()


@pytest.mark.long
def test_weights_that_are_averaged_later_take_it_back(tmp_path: Path) -> None:
    with ranks(tmp_path, "weights when asked", script=SCRIPT) as run:
        run.wait_for(lambda: run.notes("NeverExchanged"))
        (tmp_path / "average").touch()
        run.wait_for(lambda: len(run.notes("NeverExchanged")) == 2)
        (tmp_path / "end").touch()
        assert run.ended() == [0, 0], run.logs()
        assert [bool(note["fields"].get("over")) for note in run.notes("NeverExchanged")] == [False, True], run.logs()
    assert not run.troubles()


@pytest.mark.long
def test_a_training_that_is_over_before_the_guard_has_looked(tmp_path: Path) -> None:
    with ranks(tmp_path, "never", script=SCRIPT) as run:
        assert run.ended() == [0, 0], run.logs()
        assert "no gradient was averaged" in run.log(0)
    (finding,) = run.troubles()
    assert (finding.cause.value, finding.ranks) == ("config.trains_alone", (0, 1))


@pytest.mark.long
def test_a_rank_that_skipped_a_step_finishes_first(tmp_path: Path) -> None:
    with ranks(tmp_path, "tensor parallel, one rank skips a step", script=SCRIPT) as run:
        assert run.ended() == [1, 0], run.logs()
    finding = run.troubles()[0]
    assert (finding.rule, finding.cause.value, finding.ranks) == ("SYN208", "sync.collective_mismatch", (1,))
    assert finding.confidence.value == "established"
