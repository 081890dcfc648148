# SPDX-License-Identifier: Apache-2.0
"""Scripts as people write them, unmodified, tried for real on tensors without content."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstep.model.codec import from_dict
from keepstep.model.facts import DeviceMemoryForecast, HostMemoryForecast
from tests.supervise.starting import wait_for

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

Try = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 900

LOOP = """
import torch
from torch import nn

class Metric(nn.Module):  # as torchmetrics: its hash needs what its construction makes
    def __init__(self):
        super().__init__()
        self.kept = ()
    def __hash__(self):
        return hash(self.kept)

metric = Metric()
model = nn.Sequential(nn.Linear(1000, 3000), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3000, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(64, 1000), torch.randint(0, 10, (64,)))
total = torch.tensor(0.0, device="cuda")
for x, y in torch.utils.data.DataLoader(data, 16, shuffle=True, num_workers=2, pin_memory=True):
    x, y = x.to("cuda"), y.to("cuda")
    assert x.is_cuda and model[0].weight.device.type == "cuda"
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()
    print(f"{total.item():.3f}")
raise SystemExit("what comes after two steps does not matter")
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

ON_META = """
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
with torch.device("meta"):
    model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(3)))
for layer in model:
    fully_shard(layer)
fully_shard(model)
model.to_empty(device="cuda")
for each in model.parameters():
    nn.init.normal_(each)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(8, 8192, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""

ADAPTED = """
import torch
from torch import nn

class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4096, 4096, bias=False, dtype=torch.bfloat16).requires_grad_(False)
        self.down, self.up = nn.Linear(4096, 64, bias=False), nn.Linear(64, 4096, bias=False)
    def forward(self, x):
        return self.base(x.bfloat16()).float() + self.up(self.down(x))

model = nn.Sequential(*(Adapted() for _ in range(4))).cuda()
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
for _ in range(3):
    model(torch.randn(8, 4096, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

STARTED = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def train(rank, size, done):
    dist.init_process_group("nccl", rank=rank, world_size=size)
    assert dist.get_world_size() == 2 and rank == 0
    w = torch.nn.Parameter(torch.zeros(1000, 1000, device=rank))
    optimizer = torch.optim.SGD([w], lr=1)
    for _ in range(3):
        w.sum().backward()
        optimizer.step()

if __name__ == "__main__":
    ranks = [mp.Process(target=train, args=(rank, 2, None)) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""

SPARSE = """
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device(0)
words, bags = nn.Embedding(100_000, 64, sparse=True).to(0), nn.EmbeddingBag(50_000, 64, mode="sum", sparse=True)
bags = bags.cuda(0)
head = nn.Linear(64, 10).to(device)
optimizers = [torch.optim.SparseAdam([*words.parameters(), *bags.parameters()]), torch.optim.Adam(head.parameters())]
for _ in range(3):
    x, y = torch.randint(100_000, (512, 20), device=device), torch.randint(10, (512,), device=0)
    out = words(x).mean(1) + bags(x % 50_000)
    for each in optimizers:
        each.zero_grad()
    F.cross_entropy(head(out), y).backward()
    assert words.weight.grad.is_sparse and words.weight.grad._values().shape == (512 * 20, 64)
    for each in optimizers:
        each.step()
"""

BY_HAND = {
    "in place": "parameter.data.add_(parameter.grad, alpha=-0.1)",
    "anew": "parameter.data = parameter - 0.1 * parameter.grad",
    "no module": "lone -= 0.1 * lone.grad",
}

WITHOUT_OPTIMIZER = """
import os
import torch

model = torch.nn.Linear(1000, 2000, bias=False).cuda()
lone = torch.ones(1000, 2000, device="cuda", requires_grad=True)
for step in range(9):
    if step == 3:
        raise SystemExit("it went on after two steps")
    model.zero_grad()
    for _ in range(3):  # accumulated
        ((model(torch.ones(8, 1000, device="cuda")) ** 2).mean() + lone.sum()).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            exec(os.environ["UPDATE"])
"""

FLOAT64 = """
import numpy, torch

model = torch.nn.Linear(4, 4).cuda()
x = torch.from_numpy(numpy.zeros((8, 4))).cuda()
model(x)
"""

FOUR_DEVICES = """
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
mesh = dist.device_mesh.init_device_mesh("cuda", (4,))
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


MEASURED = """
import copy, torch
import torch.nn.functional as F
from torch import nn

def seen(what, make, forward, most, backward):
    # what an H200 showed (torch 2.11), in MiB: held after the forward pass, the most in it, the most in backward
    run = make()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = run()
    found = [torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before]
    grad = torch.ones_like(out)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out.backward(grad)
    found.append(torch.cuda.max_memory_allocated() - before)
    for one, real in zip(found, (forward, most, backward)):
        assert abs(one / 2**20 - real) <= 0.11 * real, (what, [each / 2**20 for each in found])

def on(dtype, *shape):
    return torch.randn(*shape, device="cuda", dtype=dtype).requires_grad_()

def layer(module, *shape, dtype=torch.float32):
    module, x = module.to("cuda", dtype), on(dtype, *shape)
    return lambda: module(x)[0] if isinstance(module, nn.RNNBase) else module(x)

def cross_entropy():
    x, y = on(torch.float32, 1024, 1024), torch.randint(16384, (2048,)).cuda()
    first, head = nn.Linear(1024, 1024).cuda(), nn.Linear(1024, 16384).cuda()
    def run():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(torch.cat([head(first(x))] * 2), y)
    return run

bf16 = torch.bfloat16
convolution = nn.Conv2d(256, 256, 3, 1, 1), 64, 256, 28, 28
seen("convolution", lambda: layer(*convolution), 50, 150.3, 159.2)
seen("of bfloat16", lambda: layer(*convolution, dtype=bf16), 24.5, 74.6, 92)
seen("depthwise", lambda: layer(nn.Conv2d(256, 256, 3, 1, 1, groups=256), 32, 256, 56, 56), 98, 98, 98)
seen("embedding", lambda: (lambda m, x: lambda: m(x))(
    nn.Embedding(32768, 512).cuda(), torch.randint(32768, (64, 512)).cuda()), 64, 64, 135.9)
first = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True)
held = []
for model in (first, copy.deepcopy(first)):
    model, x = model.cuda(), on(torch.float32, 8, 512, 768)
    before = torch.cuda.memory_allocated()
    out = model(x)
    held.append(torch.cuda.memory_allocated() - before)
    del out
assert held[0] == held[1], held

def kept(module, *shape, dtype=torch.float32):
    run = layer(module, *shape, dtype=dtype)
    before = torch.cuda.memory_allocated()
    out = run()
    return (torch.cuda.memory_allocated() - before) / 2**20

for module, real in (
    (kept(nn.LSTM(512, 1024, 2), 128, 32, 512), 192.5),
    (kept(nn.GRU(512, 512, 2, bidirectional=True), 64, 64, 512), 224.5),
    (kept(nn.RNN(512, 512, 2, batch_first=True), 64, 64, 512), 32.25),
    (kept(nn.LSTM(512, 1024, 2), 128, 32, 512, dtype=bf16), 124.28),
):
    assert abs(module / real - 1) < 0.01, (module, real)

def most(run):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = run()
    return (torch.cuda.max_memory_allocated() - before) / 2**20

last = nn.Conv2d(64, 32, 3, padding=1).to(memory_format=torch.channels_last)
turned = torch.randn(128, 128, 16, 16, device="cuda").transpose(0, 1)  # as in the gradient of a gradient
filters = torch.randn(256, 128, 8, 8, device="cuda")
for found, real in (
    (most(layer(nn.Conv3d(3, 32, 3, (1, 2, 2), 1), 8, 3, 16, 112, 112)), 49),
    (most(layer(last, 8, 64, 256, 256)), 64 + 128),
    (most(lambda: F.conv2d(turned, filters, padding=1, dilation=2)), 2.25 + 16 + 26.25),
    (most(layer(nn.ConvTranspose2d(256, 3, 4, 2, 1), 256, 256, 16, 16)), 3),
):
    assert abs(found / real - 1) < 0.02, (found, real)

run = cross_entropy()
before = torch.cuda.memory_allocated()
loss = run()
logits = 2048 * 16384 / 2**20
held = (torch.cuda.memory_allocated() - before) / 2**20
assert abs(held - (2 + 4) * logits) < 60, held  # the result of log_softmax in bfloat16, and in float32 for the loss
w = nn.Parameter(torch.zeros(8, device="cuda"))
optimizer = torch.optim.SGD([w], lr=1)
for _ in range(2):
    w.sum().backward()
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


def saved(tmp_path: Path) -> DeviceMemoryForecast:
    fact = from_dict(json.loads((tmp_path / "forecast.jsonl").read_text().splitlines()[0])).fact
    assert isinstance(fact, DeviceMemoryForecast)
    return fact


def test_ranks_that_the_script_starts_itself(try_it: Try) -> None:
    done = try_it(STARTED, "--ranks", "2")
    assert done.returncode == 0 and "fits: " in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_layers_hold_what_was_measured_on_a_gpu(try_it: Try) -> None:
    done = try_it(MEASURED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_plain_loop_fits_and_its_parts_are_arithmetic(try_it: Try, tmp_path: Path) -> None:
    done = try_it(LOOP, "--html", "page.html", "--save", "forecast.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * (1000 * 3000 + 3000 + 3000 * 10 + 10)
    rows = {line.split("  ")[1]: line for line in done.stdout.splitlines() if line.startswith("  ") and " MB" in line}
    assert f"{parameters / 1e6:.1f} MB" in rows["parameters"]
    assert f"{parameters / 1e6:.1f} MB" in rows["gradients"]
    assert f"{2 * parameters / 1e6:.1f} MB" in rows["optimizer state"]
    assert "fits: " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    page = (tmp_path / "page.html").read_text()
    assert "What the device would hold" in page and "optimizer state <b>" in page
    lines = (tmp_path / "forecast.jsonl").read_text().splitlines()
    kept, of_host = (from_dict(json.loads(line)).fact for line in lines)
    assert isinstance(kept, DeviceMemoryForecast) and isinstance(of_host, HostMemoryForecast)
    assert kept.earlier and dict(kept.parts)["parameters"] == parameters
    assert dict(of_host.parts)["datasets' records"] == 64 * (4 * 1000 + 8)


@pytest.mark.long
def test_sparse_gradients_are_as_large_as_what_was_looked_up(try_it: Try, tmp_path: Path) -> None:
    done = try_it(SPARSE, "--save", "forecast.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    fact = saved(tmp_path)
    parts = dict(fact.parts)
    head = 650 * 4
    tables, rows = 150_000 * 64 * 4, 2 * 512 * 20 * (64 * 4 + 8)
    assert tables <= parts["parameters"] <= tables + head + 1024
    assert 2 * tables <= parts["optimizer state"] <= 2 * (tables + head) + 4096
    assert rows / 2 <= parts["gradients"] <= rows + head + 1024


@pytest.mark.parametrize("update", BY_HAND.values(), ids=BY_HAND)
def test_a_loop_that_updates_its_parameters_by_hand(try_it: Try, tmp_path: Path, update: str) -> None:
    done = try_it(WITHOUT_OPTIMIZER, "--save", "forecast.jsonl", UPDATE=update)
    assert done.returncode == 0, done.stdout + done.stderr
    fact = saved(tmp_path)
    assert fact.allocated > 3 * 1000 * 2000 * 4 and dict(fact.parts)["gradients"] >= 1000 * 2000 * 4


@pytest.mark.parametrize(("how", "share"), [("ddp", 1), ("fsdp", 8)])
def test_ranks_share_what_is_sharded(try_it: Try, how: str, share: int) -> None:
    done = try_it(SHARDED, "--ranks", "8", HOW=how)
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * 4 * 1024 * 1024 / share
    state = next(line for line in done.stdout.splitlines() if line.startswith("  optimizer state"))
    assert f"{2 * parameters / 1e6:.1f} MB" in state
    # each rank builds the whole model on the host first
    host = next(line for line in done.stdout.splitlines() if line.startswith("  their tensors"))
    assert f"{8 * 4 * 4 * 1024 * 1024 / 1e6:.1f} MB" in host


@pytest.mark.long
def test_a_tensor_of_3_terabytes_does_not_fit_and_its_line_is_named(try_it: Try) -> None:
    done = try_it(TOO_LARGE, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    finding = report(done)["findings"][0]
    assert (finding["rule"], finding["cause"]) == ("RES108", "resource.gpu_oom")
    assert finding["evidence"][0]["source"] == "train.py"
    assert finding["evidence"][0]["line"] == 5
    assert "3.2 TB" in finding["because"]
    figures = report(done)["memory"]
    assert figures["verdict"] == "does not fit" and figures["allocated"] >= 3.2e12


def test_a_model_that_no_host_could_build_is_sharded_from_meta(try_it: Try) -> None:
    done = try_it(ON_META, "--ranks", "64")
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 3 * 8192 * 8192 * 4 / 64
    lines = {line[2:22].strip(): line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert f"{parameters / 1e6:.1f} MB" in lines["parameters"]
    assert f"{2 * parameters / 1e6:.1f} MB" in lines["optimizer state"]
    assert "their tensors" not in lines


def test_frozen_weights_have_neither_gradients_nor_state(try_it: Try) -> None:
    done = try_it(ADAPTED)
    assert done.returncode == 0, done.stdout + done.stderr
    frozen, adapters = 4 * 4096 * 4096 * 2, 4 * 2 * 64 * 4096 * 4
    lines = {line[2:22].strip(): line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert f"{(frozen + adapters) / 1e6:.1f} MB" in lines["parameters"]
    assert f"{2 * adapters / 1e6:.1f} MB" in lines["optimizer state"]


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [(FLOAT64, "train.py:6", "torch.float32 and torch.float64"), (FOUR_DEVICES, "train.py:6", "4")],
    ids=["float64 fed to float32", "a program for four devices on three ranks"],
)
def test_a_mistake_is_refused_before_a_step_with_its_line(try_it: Try, text: str, place: str, says: str) -> None:
    done = try_it(text, "--ranks", "3", "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    coverage = json.dumps(report(done)["coverage"])
    assert place in coverage and says in coverage
    assert (report(done)["memory"] or {"verdict": "not established"})["verdict"] == "not established"


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


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_a_python_without_the_framework_is_called_that(tmp_path: Path, framework: str) -> None:
    venv.create(tmp_path / "bare")
    (tmp_path / "train.py").write_text(f"import {framework}\n")
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "check",
        "memory",
        "--device",
        "h200",
        "--",
        "bare/bin/python",
        "train.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 3
    assert f"bare/bin/python has no {framework}: name the Python that trains" in " ".join(done.stdout.split())


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


@pytest.mark.parametrize("how", ["namespaces", "hooks"])
def test_a_keepstep_that_is_killed_leaves_no_dry_run_behind(tmp_path: Path, how: str) -> None:
    def running() -> list[Path]:
        """The dry runs of this test that have torch."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_ours = str(tmp_path).encode() in (each / "cmdline").read_bytes()
                if is_ours and "libtorch" in (each / "maps").read_text():
                    found.append(each)
        return found

    (tmp_path / "train.py").write_text("import time\ntime.sleep(3600)\n")
    command = [
        sys.executable,
        "-m",
        "keepstep",
        "check",
        "memory",
        "--device",
        "h200",
        "--",
        sys.executable,
        "train.py",
    ]
    env = {**os.environ, "KEEPSTEP_MEMORY_CONFINE": how}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as keepstep:
        wait_for(running, LIMIT_S)
        keepstep.kill()
    wait_for(lambda: not running(), LIMIT_S)
