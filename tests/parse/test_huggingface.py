# SPDX-License-Identifier: Apache-2.0
"""What the Trainer and the Hub say."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import CudaMismatch, UnsupportedCombination
from keepstep.core.facts.network import ConnectFailed
from keepstep.core.facts.training import CheckpointUnreadable, Phase, PhaseSeen
from keepstep.parse.tools.trainers import huggingface as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ValueError: Can't find a valid checkpoint at output/checkpoint-500", "output/checkpoint-500"),
        (
            "OSError: Unable to load weights from pytorch checkpoint file for '/m/pytorch_model.bin' at '/m'",
            "/m/pytorch_model.bin",
        ),
        ("OSError: Error no file named pytorch_model.bin, tf_model.h5 found in directory ./out.", "./out."),
    ],
)
def test_a_model_that_is_not_there_is_read(text, path):
    assert one(text, CheckpointUnreadable).path == path


def test_an_unreachable_hub_is_read():
    assert (
        one("OSError: We couldn't connect to 'https://huggingface.co' to load this file", ConnectFailed).peer
        == "huggingface.co"
    )


def test_saving_is_a_phase():
    assert one("Saving model checkpoint to out/checkpoint-500", PhaseSeen).phase is Phase.SAVING


@pytest.mark.parametrize(
    "text",
    ["Some weights of BertModel were not initialized from the model checkpoint at bert and are newly initialized"],
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


FURTHER = [
    (
        "ValueError: The checkpoint you are trying to load has model type `qwen3` but Transformers does not recognize this architecture.",
        UnsupportedCombination,
        {},
    ),
    (
        "ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half precision evaluation can only be used on CUDA devices.",
        CudaMismatch,
        {},
    ),
    (
        "LocalEntryNotFoundError: Connection error, and we cannot find the requested files in the disk cache. Please try again",
        ConnectFailed,
        {},
    ),
    (
        "ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /api",
        ConnectFailed,
        {"peer": "huggingface.co"},
    ),
    (
        "urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>",
        ConnectFailed,
        {},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)
