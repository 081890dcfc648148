# SPDX-License-Identifier: Apache-2.0
"""What a dry run sees besides two plain steps: a validation, sizes that depend on values, libraries, and no answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstep.model.codec import from_dict
from keepstep.model.facts import DeviceMemoryForecast

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

Try = Callable[..., tuple[subprocess.CompletedProcess[str], DeviceMemoryForecast | None]]
MIB = 1 << 20

VALIDATED = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(6400, 1024), torch.randint(10, (6400,)))
for epoch in range(100):
    for x, y in torch.utils.data.DataLoader(data, 32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in torch.utils.data.DataLoader(data, 6400):
            held = model[0](x.cuda())
    raise SystemExit("this fails after the answer stands")
"""

OF_VALUES = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

lengths = torch.tensor([40, 30, 20, 10])
recurrent, gate = nn.LSTM(64, 64, bidirectional=True, batch_first=True).cuda(), nn.Linear(128, 4).cuda()
experts = nn.ModuleList(nn.Linear(128, 128) for _ in range(4)).cuda()
optimizer = torch.optim.SGD([*recurrent.parameters(), *gate.parameters(), *experts.parameters()], lr=0.1)
for _ in range(3):
    packed = pack_padded_sequence(torch.randn(4, 40, 64, device="cuda"), lengths, batch_first=True)
    assert packed.data.shape == (100, 64)
    x, back = pad_packed_sequence(recurrent(packed)[0], batch_first=True)
    assert x.shape == (4, 40, 128) and back.tolist() == lengths.tolist()
    flat = x.flatten(0, 1)
    chosen = gate(flat).argmax(-1)
    out = torch.zeros_like(flat)
    for n, expert in enumerate(experts):
        (rows,) = torch.where(chosen == n)
        assert len(rows) == 40
        out.index_add_(0, rows, expert(flat[rows]))
    signs = torch.randint(1, 128, (4, 10), device="cuda")
    scores = out.view(4, 40, 128).transpose(0, 1).log_softmax(-1)
    loss = nn.functional.ctc_loss(scores, signs, torch.full((4,), 40), torch.full((4,), 10))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

IN_PARALLEL = """
import torch
from torch import nn

whole = nn.Sequential(nn.Linear(1000, 1000), nn.ReLU())
model = nn.DataParallel(whole.cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    seen = model(torch.randn(64, 1000).cuda())
    assert seen.shape == (64, 1000)
    seen.sum().backward()
    optimizer.step()
"""

LAST = """
import torch
from torch import nn

def order(x):
    return x.is_contiguous(memory_format=torch.channels_last)

net = nn.Conv2d(64, 64, 3, padding=1).cuda().to(memory_format=torch.channels_last)
assert order(net.weight) and order(net(torch.randn(4, 64, 8, 8, device="cuda")))
q, k, v = torch.randn(3, 5, 2, 4, 16, device="cuda", dtype=torch.bfloat16).permute(0, 2, 3, 1, 4)
assert nn.functional.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).is_contiguous()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.randn(4, 64, 8, 8, device="cuda")).sum().backward()
    optimizer.step()
"""


LENGTHS = """
import torch
from torch.utils.data import DataLoader

class Records(torch.utils.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, place):
        return torch.ones(64, 4000 if place == 70 else 200 + 17 * place % 300, dtype=torch.long)

model = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000)).cuda()
model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Records(), batch_size=None):
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def try_it(tmp_path: Path) -> Try:
    def run(text: str, *options: str) -> tuple[subprocess.CompletedProcess[str], DeviceMemoryForecast | None]:
        (tmp_path / "train.py").write_text(text)
        command = [sys.executable, "-m", "keepstep", "check", "memory", "--device", "h200", "--save", "f.jsonl"]
        command += [*options, "--", sys.executable, "train.py"]
        done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=900)
        kept = tmp_path / "f.jsonl"
        fact: Any = from_dict(json.loads(kept.read_text().splitlines()[0])).fact if kept.exists() else None
        return done, fact

    return run


def test_a_validation_at_the_end_of_an_epoch_is_seen(try_it: Try) -> None:
    done, fact = try_it(VALIDATED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert fact is not None and fact.allocated > 2 * 6400 * 1024 * 4


@pytest.mark.long
def test_packed_records_experts_and_ctc_are_answered(try_it: Try) -> None:
    done, fact = try_it(OF_VALUES)
    assert done.returncode == 3, done.stdout + done.stderr
    assert fact is not None and "an equal share" in done.stdout
    assert "packed" not in done.stdout


@pytest.mark.parametrize("ranks", ["1", pytest.param("4", marks=pytest.mark.long)])
def test_data_parallel_is_its_first_device(try_it: Try, ranks: str) -> None:
    done, fact = try_it(IN_PARALLEL, "--ranks", ranks)
    assert done.returncode == (0 if ranks == "1" else 3), done.stdout + done.stderr
    assert fact is not None and ("the first device" in done.stdout) == (ranks != "1")


def test_the_order_of_dimensions_is_that_of_a_gpu(try_it: Try) -> None:
    done, fact = try_it(LAST)
    assert done.returncode == 0 and fact is not None, done.stdout + done.stderr


@pytest.mark.long
def test_a_long_batch_to_come_is_seen_and_what_is_compiled_may_fit(try_it: Try) -> None:
    done, fact = try_it(LENGTHS)
    assert done.returncode == 0, done.stdout + done.stderr
    logits = 64 * 4000 * 1000 * 4
    assert fact is not None and 2 * logits < fact.allocated < 6 * logits
    assert fact.reserved > fact.allocated * 1.05
    assert "counted uncompiled" in done.stdout
