# SPDX-License-Identifier: Apache-2.0
"""The longest record of the data beside those that a dry run saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keepstep.check.memory.longest_record import LongRecord, longest_of
from tests.lazy_framework import need_framework

SCRIPT = """
import json, torch
from torch import nn

rows = [json.loads(line)["input_ids"] for line in open("data/train.jsonl")][:32]
data = [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in rows]
model = nn.Sequential(nn.Embedding(1000, 256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in torch.utils.data.DataLoader(data, 8):
    scores = model(batch["input_ids"].cuda())
    nn.functional.cross_entropy(scores.flatten(0, 1), batch["labels"].cuda().flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("longest", "lengths", "found"),
    [
        (
            {("text", "characters"): 9000, ("input_ids", "values"): 1600, ("other", "values"): 5000},
            {"input_ids": 512, "attention_mask": 512},
            LongRecord("input_ids", "values", 1600, 512),
        ),
        ({("tokens", "values"): 700, ("tags", "values"): 3}, {"": 128}, LongRecord("tokens", "values", 700, 128)),
        ({("tokens", "values"): 700}, {}, LongRecord("tokens", "values", 700)),
        ({("text", "characters"): 9000}, {"text": 512}, LongRecord("text", "characters", 9000)),
        ({}, {"input_ids": 512}, None),
    ],
)
def test_the_field_of_the_batch_comes_first(
    longest: dict[tuple[str, str], int], lengths: dict[str, int], found: LongRecord | None
) -> None:
    assert longest_of(longest, lengths) == found


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "status", "says"),
    [pytest.param("8GB", 0, "fits, it needs ", marks=pytest.mark.long), ("1GB", 3, "unless the script cuts or packs")],
)
def test_a_later_and_longer_record_is_forecast(tmp_path: Path, device: str, status: int, says: str) -> None:
    need_framework("torch")
    (tmp_path / "data").mkdir()
    rows = [{"input_ids": [1] * 64}] * 32 + [{"input_ids": [1] * 6400}]
    (tmp_path / "data/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "keepstep", "check", "memory", "--device", device, "--search", "0", "--json"]
    done = subprocess.run(
        [*command, "--data", "data", "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == status, done.stdout + done.stderr
    told = [f"{each['what']}: {each.get('why')}" for each in json.loads(done.stdout)["coverage"]]
    (line,) = [each for each in told if "longest record" in each]
    assert "input_ids has 6,400 values, 100.0 times the 64 that were seen" in line
    assert says in line
