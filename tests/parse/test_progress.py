# SPDX-License-Identifier: Apache-2.0
"""Lines of progress, and lines that only look like them."""

from __future__ import annotations

import math

import pytest

from keepstep.core.facts.training import StepSeen
from keepstep.parse.tools.programs.progress import PROGRESS


def read(text: str) -> StepSeen | None:
    return next((fact for each in PROGRESS if (fact := each.read(text)) is not None), None)


@pytest.mark.parametrize(
    ("text", "step", "of", "loss"),
    [
        ("2026-11-15 01:33:50,380 INFO rank=0 epoch 0 step 10 loss 2.2352", 10, None, 2.2352),
        (" 20%|##        | 412/2040 [4:02:51<15:59:22, 35.36s/it]", 412, 2040, None),
        ("    311/Unknown - 29s 93ms/step - loss: 0.4180", 311, None, 0.418),
        (" 12/100 [==>...........................] - ETA: 3s - loss: 0.5", 12, 100, 0.5),
        ("1875/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 2ms/step - loss: 0.25", 1875, 1875, 0.25),
        ("INFO:tensorflow:loss = 11.204410, step = 1", 1, None, 11.20441),
        (" iteration      100/     500 | consumed samples:  800 | lm loss: 9.1E+00 |", 100, 500, 9.1),
        ("Epoch: [0][  10/5004]\tTime  0.1\tLoss 6.9", 10, 5004, 6.9),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 0.689900", 640, 60000, 0.6899),
        ("{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.1}", None, None, 2.3),
        ("Epoch 2/3", None, None, None),
        ("100\timages/sec: 701.0 +/- 2.0 (jitter = 9.0)\t9.844\t0.004", 100, None, 9.844),
    ],
)
def test_a_step_is_read(text, step, of, loss):
    seen = read(text)
    assert isinstance(seen, StepSeen)
    assert (seen.step, seen.of, seen.loss) == (step, of, loss)


def test_a_loss_of_nan_is_kept():
    seen = read("step 30 loss nan lr 0.1")
    assert seen is not None
    assert seen.loss is not None
    assert math.isnan(seen.loss)


@pytest.mark.parametrize(
    "text",
    [
        "FloatingPointError: loss was not finite for 3 steps, giving up at step 27",
        "Loading checkpoint shards: 100%|##########| 2/2 [00:00<00:00,  5.56it/s]",
        "Map: 100%|##########| 1000/1000 [00:01<00:00, 900 examples/s]",
        '  File "train.py", line 10, in step',
        "resumed from /data/run/last.pt at step 40 of 100 sec",
        "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=16207, OpType=ALLGATHER, Timeout(ms)=4800000)",
        "NCCL INFO Channel 00/02 : 0 1",
    ],
)
def test_other_lines_are_no_progress(text):
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "waiting"),
    [
        (
            "Epoch(train)  [1][ 50/1000]  lr: 1.9e-02  eta: 1:00:00  time: 0.80  data_time: 0.60  memory: 5000  loss: 1.2",
            0.75,
        ),
        ("Epoch: [0][10/5004]\tTime  0.400 ( 0.412)\tData  0.300 ( 0.380)\tLoss 6.9", 0.75),
        ("Train Epoch: 0 [24576/500000 (5%)] Data (t): 0.010 Batch (t): 0.800, 240.0/s", 0.0125),
        ("epoch 0 step 10 loss 2.2352", None),
    ],
)
def test_a_step_tells_how_long_it_waited_for_its_batch(text, waiting):
    found = read(text).waiting
    assert found == waiting if waiting is None else math.isclose(found, waiting)


def test_a_step_of_an_estimator_may_name_its_rank():
    assert read("INFO:tensorflow:loss = 0.15, step = 140, rank = 3.0 (2.090 sec)").rank == 3
    assert read("INFO:tensorflow:loss = 0.15, step = 140 (2.090 sec)").rank is None


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        (
            "Epoch: [0]  [ 100/14786]  eta: 23:10:21  loss: 31.2 (35.1)  time: 5.0  data: 4.0  max mem: 6411",
            "waiting",
            0.8,
        ),
        (
            "[Train][Epoch 1/20][Iter: 10/312]lr: 0.1, loss: 6.9, batch_cost: 1.0s, reader_cost: 0.8, ips: 52.8",
            "waiting",
            0.8,
        ),
        ("iter 120: data 4.0s fwd 0.5s bwd 0.5s", "waiting", 0.8),
        ("step 100 forward 0.182s backward 0.971s", "own", 0.182),
        ("time (ms) | forward: 100.0 | backward: 300.0 | backward_allreduce: 200.0 | step: 2.0", "exchanging", 0.5),
        ("60/60 [==============================] - 31s 520ms/step - loss: 2.2", "seconds", 0.52),
        ("step 1200 images/sec: 365.2", "rate", 365.2),
        ("step 100 | 0.41 sec/step | 311.2 samples/sec", "rate", 311.2),
        ("INFO:tensorflow:global_step/sec: 12.31", "rate", 12.31),
    ],
)
def test_a_step_tells_where_its_time_went(text, field, value):
    assert math.isclose(getattr(read(text), field), value)


def test_a_loss_under_another_name_is_read():
    assert read("INFO:tensorflow:cross_entropy = 3.21, learning_rate = 0.013 (7.317 sec)").loss == 3.21
