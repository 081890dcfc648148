# SPDX-License-Identifier: Apache-2.0
"""Losses that are not finite."""

from __future__ import annotations

import pytest

from keepstep.model.finding import Severity
from tests.rules.explained import causes, findings

STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))


def test_the_first_rank_with_nan_is_named(tmp_path):
    zero = "2024-01-01 00:00:01 INFO step 20 loss 2.2\n2024-01-01 00:00:03 WARNING loss is nan at step 26\n"
    one = (
        "2024-01-01 00:00:01 INFO step 20 loss 2.2\n2024-01-01 00:00:02 WARNING loss is nan at step 25\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/train.py", line 82, in main\n'
        '    raise FloatingPointError("loss was not finite")\n'
        "FloatingPointError: loss was not finite for 3 steps, giving up at step 27\n"
    )
    root = findings(tmp_path, rank0=zero, rank1=one)[0]
    assert (root.cause.value, root.ranks) == ("numeric.nan_or_divergence", (1,))


def test_a_loss_that_stays_nan_is_told_although_nothing_failed(tmp_path):
    text = "step 1 loss 2.0\n" + "".join(f"step {n} loss nan\n" for n in range(2, 9))
    root = findings(tmp_path, rank0=text)[0]
    assert (root.cause.value, root.severity) == ("numeric.nan_or_divergence", Severity.FATAL)


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss nan\n" + STEPS,
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n" + STEPS,
        "{'loss': 2.3, 'grad_norm': nan, 'learning_rate': 0.0}\n" + STEPS,
    ],
)
def test_a_single_odd_step_gives_nothing(tmp_path, text):
    assert findings(tmp_path, rank0=text) == ()


def test_a_loss_that_stands_still_is_a_warning(tmp_path):
    text = "".join(f"step {n} loss 2.302585\n" for n in range(60))
    assert [(f.cause.value, f.severity) for f in findings(tmp_path, rank0=text)] == [
        ("numeric.plateau", Severity.WARNING)
    ]


def test_a_loss_that_grows_without_bound_is_told(tmp_path):
    losses = [3.9, 3.2, 86.3, 10853.7, 19648.3]
    text = "".join(f"INFO:tensorflow:cross_entropy = {loss}, learning_rate = 0.01 (7.3 sec)\n" for loss in losses)
    found = findings(tmp_path, rank0=text)
    assert [(f.cause.value, f.severity) for f in found] == [("numeric.nan_or_divergence", Severity.WARNING)]


def test_gradients_that_stay_nan_are_told_although_the_loss_is_printed_as_zero(tmp_path):
    text = "{'loss': 1.93, 'epoch': 0.02}\n" + "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.1}\n" * 4
    assert causes(tmp_path, rank0=text) == ["numeric.nan_or_divergence"]


@pytest.mark.parametrize("losses", [[6.9088, 6.9080, 6.9079, 6.9079, 6.9079, 6.9079], [2.3026] * 6])
def test_epochs_that_only_guess_are_a_plateau(tmp_path, losses):
    text = "".join(
        f"Epoch {n}/20\n1000/1000 [==============================] - 9s 9ms/step - loss: {loss}\n"
        for n, loss in enumerate(losses)
    )
    assert causes(tmp_path, rank0=text) == ["numeric.plateau"]


@pytest.mark.parametrize("losses", [[2.3026, 1.9, 1.2, 0.8, 0.5, 0.5, 0.5, 0.5, 0.5], [2.3026, 2.3025]])
def test_epochs_that_learned_or_are_few_give_nothing(tmp_path, losses):
    text = "".join(
        f"Epoch {n}/20\n1000/1000 [==============================] - 9s 9ms/step - loss: {loss}\n"
        for n, loss in enumerate(losses)
    )
    assert findings(tmp_path, rank0=text) == ()


def test_a_slow_start_is_no_plateau(tmp_path):
    text = "".join(f"step {n} loss {0.6931 - n / 100000:.4f} lr 1e-6\n" for n in range(0, 100, 10))
    assert findings(tmp_path, rank0=text) == ()


def test_a_loss_equal_to_many_digits_stands_still(tmp_path):
    text = "INFO:tensorflow:loss = 110098360.0, step = 267 (2.804 sec)\n" + "".join(
        f"INFO:tensorflow:loss = 2129.3452, step = {n} (2.6 sec)\n" for n in range(400, 4000, 400)
    )
    assert causes(tmp_path, rank0=text) == ["numeric.plateau"]


def test_losses_that_are_nan_again_and_again_are_told(tmp_path):
    odd = "{'loss': nan, 'lr': 0.0002, 'epoch': 0.09}\n{'loss': 5.46, 'lr': 0.0002, 'epoch': 0.09}\n"
    assert causes(tmp_path, train=odd * 5) == ["numeric.nan_or_divergence"]


def test_nan_to_the_end_is_told_where_the_traceback_below_does_not_name_its_exception(tmp_path):
    nan = "".join(f"step {n} loss nan lr 1e-6\n" for n in range(5))
    cut = 'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in main\n    engine.step()\n'
    root = findings(tmp_path, rank0=nan + cut)[0]
    assert (root.cause.value, root.confidence.value) == ("numeric.nan_or_divergence", "hypothesis")
