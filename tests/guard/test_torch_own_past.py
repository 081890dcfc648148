# SPDX-License-Identifier: Apache-2.0
"""A training against its own past: a number that is stuck is noticed in one process alone, with its layer."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from tests.guard.torch_ranks import ranks

SCRIPT = Path(__file__).with_name("own_past_training.py")
EVERY = {"KEEPSTEP_OWN_PAST": "4"}


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.long
def test_a_number_that_is_stuck_is_reported_and_a_healthy_training_is_not(tmp_path: Path) -> None:
    losses = {}
    for how, env in (("stuck", EVERY), ("plain", EVERY), ("without", {"KEEPSTEP": "off"})):
        with ranks(tmp_path / how, "plain" if how == "without" else how, count=1, script=SCRIPT, **env) as run:
            assert run.ended() == [0], run.logs()
            losses[how] = [line for line in run.logs().splitlines() if line.startswith("loss ")]
            found = [each for each in explain_paths([run.guard]).report.findings] if how != "without" else []
            assert not [note for note in run.notes("GuardPart") if note["fields"]["part"] == "own past"]
        if how == "stuck":
            (of_rule,) = [each for each in found if each.rule == "NUM206"]
            assert "after step 300" in of_rule.title, of_rule
            assert "the gradient norm of last has been" in of_rule.because
            assert "keepstep: rank 0: the loss has been about" in run.logs()
        else:
            assert "NUM206" not in {each.rule for each in found}
    assert losses["plain"] == losses["without"]


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.long
def test_trainings_against_each_other_in_one_process_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    with ranks(tmp_path, "generator", count=1, script=SCRIPT, **EVERY) as run:
        assert run.ended() == [0], run.logs()
        (note,) = [each for each in run.notes("GuardPart") if each["fields"]["part"] == "own past"]
        assert "several optimizers" in note["fields"]["why"]


@pytest.mark.frameworks("torch")
def test_a_scaled_loss_that_stays_on_its_device_is_divided_by_the_scale() -> None:
    import torch

    from keepstep.guard.adapters.torch.numbers.own_past import _Look

    look = _Look(
        step=1, rate=0.1, begun=0, loss=torch.tensor(6.0), scale=torch.tensor(2.0),
        groups=[(0,)], held=(0,), norms={0: torch.tensor(1.0)}, samples={},
    )  # fmt: skip
    look.ship(torch)
    reading = look.read()
    assert reading is not None and reading.loss == 3.0


@pytest.mark.frameworks("torch")
def test_a_loss_on_a_device_is_kept_for_every_look_though_it_is_not_read(tmp_path: Path) -> None:
    import torch

    from keepstep.guard.adapters.torch.numbers.losses import LossWatch
    from keepstep.guard.adapters.torch.numbers.own_past import OwnPast
    from keepstep.guard.adapters.torch.torch_state import TorchState
    from tests.guard.test_contracts import guard_of

    session = guard_of(0, 1, tmp_path)
    state = TorchState(session, torch)
    past = state.own_past = OwnPast(state)
    look = session.guarded("losses", LossWatch(state).look)
    for _ in range(3):
        past.losses, past.number = 0, int(past.next) - 1  # a look is due
        look(torch.ones((), device="meta"))
        assert past.losses == 1
    assert state.backwards == 3


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("strict", [False, True])
def test_a_loss_on_a_device_that_stays_not_finite_is_reported_after_two_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strict: bool
) -> None:
    import torch

    from keepstep.errors import OutOfStep
    from keepstep.guard.adapters.torch.numbers.losses import LossWatch
    from keepstep.guard.adapters.torch.numbers.own_past import OwnPast, _Look
    from keepstep.guard.adapters.torch.torch_state import TorchState
    from tests.guard.test_contracts import guard_of

    session = guard_of(0, 1, tmp_path, KEEPSTEP="strict" if strict else "on")
    state = TorchState(session, torch)
    past = state.own_past = OwnPast(state)
    nan, watch = float("nan"), LossWatch(state)

    def see(*losses: float) -> str:
        for loss in losses:
            past.number += 8
            look = _Look(
                step=past.number, rate=0.1, begun=0, loss=torch.tensor(loss), scale=1.0, groups=[(0,)], held=(0,),
                norms={0: torch.tensor(1.0)}, samples={},
            )  # fmt: skip
            look.ship(torch)
            past._waiting.append(look)
        past.turn()
        return capsys.readouterr().err

    assert not see(2.0, nan, 1.9, nan)
    watch.look(torch.ones((), device="meta"))
    assert see(nan, nan, nan).count("the loss has been nan since a step between 25 and 32") == 1
    if strict:
        with pytest.raises(OutOfStep, match="between 25 and 32"):
            watch.look(torch.ones((), device="meta"))
