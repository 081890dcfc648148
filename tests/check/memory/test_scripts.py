# SPDX-License-Identifier: Apache-2.0
"""Scripts as people write them, unmodified, tried for real on tensors without content."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

Try = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 900

LOOP = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1000, 3000), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3000, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 1000), torch.randint(0, 10, (64,)))
for x, y in torch.utils.data.DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True):
    x, y = x.to("cuda"), y.to("cuda")
    assert x.is_cuda and model[0].weight.device.type == "cuda"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f}")
raise SystemExit("it went on after two steps" if len(data) == 64 else 0)
"""

SHARDED = """
import os, torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(4)))
if os.environ["HOW"] == "fsdp":
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
else:
    model = DistributedDataParallel(model.to(rank), device_ids=[rank])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randn(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

TOO_LARGE = """
import torch

shape = 20000, 20000, 2000
x = torch.randn(shape, device="cuda", dtype=torch.float32)
print(x.mean().item())
"""

HARM = """
import os, socket, subprocess, sys
import torch

def tried(what):
    try:
        what()
    except Exception as error:
        print(f"refused: {error!r}")

tried(lambda: os.write(os.open("by_os_open", os.O_WRONLY | os.O_CREAT), b"x"))
tried(lambda: open("kept.txt", "w").write("changed"))
tried(lambda: os.remove("kept.txt"))
tried(lambda: subprocess.run([sys.executable, "-c", "open('by_child', 'w').write('x')"], check=True))
tried(lambda: torch.save({}, "by_torch.pt"))
tried(lambda: open(os.environ["ELSEWHERE"] + "/elsewhere", "w").write("x"))
def speak():
    with socket.socket() as one:
        one.settimeout(5)
        one.connect(("127.0.0.1", int(os.environ["LISTENER"])))
        one.sendall(b"secret")
tried(speak)
w = torch.nn.Parameter(torch.zeros(1000, 1000, device="cuda"))
optimizer = torch.optim.SGD([w], lr=1)
for _ in range(2):
    (w * 2).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def try_it(tmp_path: Path) -> Try:
    def run(text: str, *options: str, device: str = "h200", **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(text)
        command = [sys.executable, "-m", "keepstep", "check", "memory", "--device", device, *options]
        command += ["--", sys.executable, "train.py"]
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=LIMIT_S
        )

    return run


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_plain_loop_fits_and_its_parts_are_arithmetic(try_it: Try) -> None:
    done = try_it(LOOP)
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * (1000 * 3000 + 3000 + 3000 * 10 + 10)
    rows = {line.split("  ")[1]: line for line in done.stdout.splitlines() if line.startswith("  ") and " MB" in line}
    assert f"{parameters / 1e6:.1f} MB" in rows["parameters"]
    assert f"{parameters / 1e6:.1f} MB" in rows["gradients"]
    assert f"{2 * parameters / 1e6:.1f} MB" in rows["optimizer state"]
    assert "fits: " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(("how", "share"), [("ddp", 1), ("fsdp", 8)])
def test_ranks_share_what_is_sharded(try_it: Try, how: str, share: int) -> None:
    done = try_it(SHARDED, "--ranks", "8", HOW=how)
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * 4 * 1024 * 1024 / share
    state = next(line for line in done.stdout.splitlines() if line.startswith("  optimizer state"))
    assert f"{2 * parameters / 1e6:.1f} MB" in state


def test_a_tensor_of_3_terabytes_does_not_fit_and_its_line_is_named(try_it: Try) -> None:
    done = try_it(TOO_LARGE, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    finding = report(done)["findings"][0]
    assert (finding["rule"], finding["cause"]) == ("RES108", "resource.gpu_oom")
    assert finding["evidence"][0]["source"] == "train.py"
    assert finding["evidence"][0]["line"] == 5
    assert "3.2 TB" in finding["because"]


def test_a_training_on_the_cpu_is_no_answer(try_it: Try) -> None:
    done = try_it(
        "import torch\nmodel = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(9):\n    model(torch.ones(2, 4)).sum().backward()\n    optimizer.step()\n"
    )
    assert done.returncode == 3 and "put nothing on the device" in done.stdout, done.stderr


def test_a_script_that_fails_is_no_answer(try_it: Try) -> None:
    done = try_it("import torch\ntorch.zeros(3, device='cuda') @ torch.zeros(4, device='cuda')\n", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "train.py:2" in json.dumps(report(done)["coverage"])


def test_what_was_seen_until_a_failure_is_not_called_an_answer(try_it: Try) -> None:
    done = try_it(LOOP.replace("optimizer.step()", "optimizer.stepp()"))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "fits" not in done.stdout.split("not checked")[0] and "not established" in done.stdout


@pytest.mark.parametrize("how", ["namespaces", "hooks"])
def test_the_dry_run_changes_nothing_and_reaches_nobody(
    try_it: Try, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "kept.txt").write_text("as it was")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = str(listener.getsockname()[1])
        env = {"KEEPSTEP_MEMORY_CONFINE": how, "LISTENER": port, "ELSEWHERE": str(elsewhere)}
        done = try_it(HARM, **env)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "namespaces of its own" in done.stdout or "Hooks kept" in done.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.txt", "train.py"]
    assert (tmp_path / "kept.txt").read_text() == "as it was"
    assert not list(elsewhere.iterdir())
