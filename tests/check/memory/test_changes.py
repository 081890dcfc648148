# SPDX-License-Identifier: Apache-2.0
"""A script tried with one thing changed that it does not know of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from keepstep.check.memory.devices import device_named
from keepstep.check.memory.forecast import forecast
from keepstep.check.memory.try_script import try_script
from keepstep.cluster.launch_line import LaunchLine

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

DEVICE = device_named("8GB")
SCRIPT = """
import argparse, os, torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
    def forward(self, x):
        return x + self.body(x)

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", "-b", type=int, default=32)
size = parser.parse_args().batch_size if os.environ["HOW"] == "option" else 32
model = nn.Sequential(*(Block() for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
data = torch.utils.data.TensorDataset(torch.randn(8 * size, 128, 256))
for (x,) in torch.utils.data.DataLoader(data, size):
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()
    optimizer.step()
    schedule.step()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)

    def run(how: str, *words: str, **change: Any) -> dict[str, Any]:
        monkeypatch.setenv("HOW", how)
        line = LaunchLine(python=sys.executable, script="train.py", arguments=words)
        tried = try_script(line, DEVICE, 1, 900, change)
        assert tried.seen.get("ended") == "steps", tried
        return tried.seen

    return run


@pytest.mark.parametrize(
    ("how", "words", "by"), [("option", ("-b", "32"), "-b"), ("option", (), "batch_size"), ("loader", (), "loader")]
)
def test_the_batch_is_scaled_wherever_the_script_takes_it_from(run: Any, how: str, words: Any, by: str) -> None:
    seen = run(how, *words, batch=[8, 32])
    assert seen["batch"] == {"size": 32, "by": by}
    inputs = {size for number, size in seen["events"] if seen["kinds"].get(str(number)) == "input"}
    assert 8 * 128 * 256 * 4 in inputs


@pytest.mark.long
def test_checkpointing_bfloat16_and_accumulation_change_what_they_should(run: Any) -> None:
    plain = run("loader")
    assert plain["model"]["largest_block"] == 4 * (256 * 1024 + 1024 + 1024 * 256 + 256)
    peak = forecast(plain, DEVICE, 1).allocated
    assert forecast(run("loader", checkpoint=True), DEVICE, 1).allocated < peak / 2
    assert forecast(run("loader", bfloat16=True), DEVICE, 1).allocated < 0.8 * peak
    # gradients are cleared before each pass; when they stay for the second one they are held at the peak
    parts = dict(forecast(run("loader", accumulate=True), DEVICE, 1).parts)
    assert parts["gradients"] == parts["parameters"]
