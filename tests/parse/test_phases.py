# SPDX-License-Identifier: Apache-2.0
"""What a run says that it is doing."""

from __future__ import annotations

import pytest

from keepstep.core.facts.training import Phase, PhaseSeen
from keepstep.parse.tools.programs import phases as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("INFO:tensorflow:Saving checkpoints for 0 into /tmp/model.ckpt.", Phase.SAVING),
        ("INFO:accelerate.accelerator:Saving FSDP model", Phase.SAVING),
        ("Saving the newly created merged model to /opt/ml/model", Phase.SAVING),
        ("Saving LoRA adapter to ./out", Phase.SAVING),
        ("Saving checkpoint. This may take some time. Retrieving full model state dict...", Phase.SAVING),
        ("INFO:tensorflow:Restoring parameters from /tmp/model.ckpt-0", Phase.RESTORING),
        ("resumed from /data/run/last.pt at step 40", Phase.RESTORING),
        ("Evaluating: 12%|", Phase.EVALUATING),
        ("Running validation...", Phase.EVALUATING),
        ("Grouping texts in chunks of 1024: 10%", Phase.LOADING),
        ("Map (num_proc=8):  40%|####", Phase.LOADING),
        ("Epoch 12: early stopping", Phase.STOPPING_EARLY),
        ("INFO:tensorflow:Skipping training since max_steps has already saved.", Phase.STOPPING_EARLY),
        ("INFO rank=0 training finished after 128 steps", Phase.FINISHED),
        ("INFO:tensorflow:Loss for final step: 0.1.", Phase.FINISHED),
        (':::MLLOG {"event_type": "INTERVAL_END", "key": "run_stop", "value": null}', Phase.FINISHED),
        (":::MLPv0.5.0 ssd 1541710200.5 (train.py:9) run_final", Phase.FINISHED),
        ("2024-05-31 01:11:36,332 sagemaker-training-toolkit INFO     Reporting training SUCCESS", Phase.FINISHED),
        ("# Avg bus bandwidth    : 178.078", Phase.FINISHED),
    ],
)
def test_a_phase_is_read(text, phase):
    assert one(text, PhaseSeen).phase is phase


@pytest.mark.parametrize(
    "text",
    [
        "step 10 loss 2.3",
        "Training: step 198",
        "training_loop marked as finished",
        "Training finished iteration 3 at 2023",
    ],
)
def test_steps_are_no_phases(text):
    assert facts(text) == []
