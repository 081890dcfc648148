# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import NonFinite
from keepstep.parse.tools.programs import numeric as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    "text",
    [
        "ERROR:tensorflow:Model diverged with loss = NaN.",
        "NanLossDuringTrainingError: NaN loss during training.",
        "Loss is nan, stopping training",
        "| WARNING: overflow detected, setting loss scale to: 0.000244140625",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
        "FloatingPointError: invalid value (nan) encountered in jit(div)",
        "RuntimeError: Function 'LogBackward0' returned nan values in its 0th output.",
        "InvalidArgumentError: Found Inf or NaN global norm. : Tensor had NaN values",
        "AssertionError: loss is NaN at step 7",
        "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
    ],
)
def test_what_stopped_a_training_is_fatal(text):
    assert one(text, NonFinite).fatal


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("WARNING loss is nan at step 26", 26),
        ("epoch 0 step 30 loss nan", 30),
        ("step: 12, loss: nan, lr: 0.1", 12),
        ("{'loss': nan, 'learning_rate': 0.0}", None),
        ("Train Epoch: 1 [640/60000] Loss: nan", None),
    ],
)
def test_what_was_only_printed_is_not_fatal(text, step):
    found = [fact for fact in facts(text) if isinstance(fact, NonFinite)]
    assert found
    assert all(not fact.fatal for fact in found)
    assert found[-1].step == step


@pytest.mark.parametrize(
    "text",
    [
        "loss: 0.41 - accuracy: 0.9",
        "best_loss: inf",
        "financial losses nanometer",
        "UserWarning: nan_to_num is deprecated",
        "number of nan iterations:   0 |",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    ],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Invalid loss (nan) at step 812",
        "ValueError: NaN detected in train_loss",
        "Exception: non-finite gradients on rank 3",
    ],
)
def test_an_exception_for_a_value_that_is_not_finite_is_read(text):
    assert one(text, NonFinite).fatal


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Input contains NaN, infinity or a value too large for dtype('float32').",
        "ValueError: loss_fn is None",
        "AssertionError: --no-check-for-nan-in-loss-and-grad should be set with --cuda-graph-impl=full_iteration.",
    ],
)
def test_an_exception_of_another_kind_is_left_alone(text):
    assert facts(text) == []


def test_the_device_of_a_process_of_its_own_is_its_rank():
    text = "loss_dict = {'loss_cls': tensor(nan, device='cuda:1', grad_fn=<NllLossBackward>)}"
    assert one(text, NonFinite).rank == 1
    assert not facts("loss_dict = {'loss_cls': tensor(0.3, device='cuda:1')}")


def test_a_step_skipped_for_its_gradients_names_the_rank() -> None:
    fact = one("WARN: rank 3 grad_norm is not finite: nan", NonFinite)
    assert (fact.what, fact.rank, fact.fatal) == ("grad_norm", 3, False)
