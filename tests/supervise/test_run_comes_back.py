# SPDX-License-Identifier: Apache-2.0
"""`keepstep run` decides and comes back, for real: by cause, with remedies, from warm spares."""

from __future__ import annotations

import importlib.util
import json
import resource
import zipfile
from pathlib import Path

import pytest

from tests.supervise.starting import Running, wait_for

DEATHS = """
import os, signal, time
attempt = int(os.environ["KEEPSTEP_ATTEMPT"])
print("attempt", attempt, flush=True)
"""


def test_the_same_death_at_the_start_twice_ends_the_run(tmp_path: Path) -> None:
    running = Running(
        tmp_path,
        "-n",
        "2",
        script=DEATHS + 'if os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)\n',
    )
    assert running.finish() == 137
    assert len(running.manifest["attempts"]) == 2
    assert "ended the same way at the same place (before the first step)" in running.err + running.out


def test_the_budget_bounds_attempts(tmp_path: Path) -> None:
    running = Running(
        tmp_path, "-n", "1", "--max-attempts", "1", script=DEATHS + "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert running.finish() == 137
    assert len(running.manifest["attempts"]) == 1


def test_a_limit_that_was_reached_is_raised_and_the_run_finishes(tmp_path: Path) -> None:
    script = """
import resource
held = [open("/dev/null") for _ in range(300)]
print("opened", len(held), "of", resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        running = Running(tmp_path, "-n", "1", script=script)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert running.finish() == 0, running.err
    assert running.manifest["remedies"] == ["raise RLIMIT_NOFILE"]
    assert "raise the limit on open files from 256 to" in running.err
    assert "opened 300 of" in running.log(0, attempt=1)


@pytest.mark.long
@pytest.mark.frameworks
@pytest.mark.slow
def test_the_interface_that_routes_takes_the_place_of_one_that_is_not_there(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    script = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(value := torch.ones(1))
print("sum", value.item(), flush=True)
"""
    running = Running(tmp_path, "-n", "2", script=script, env={"GLOO_SOCKET_IFNAME": "nosuch0"})
    assert running.finish(150) == 0, running.err
    assert "remedy: use the interface lo, through which the ranks reach each other" in running.err
    assert "sum 2.0" in running.log(0, attempt=1)


@pytest.mark.frameworks
@pytest.mark.slow
def test_a_damaged_checkpoint_is_put_aside_and_the_one_before_resumed_from(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    script = """
import glob, os, torch
if not os.path.exists("saved"):
    os.mkdir("saved")
    for step in (10, 20):
        torch.save({"step": step, "weights": torch.ones(1000)}, f"saved/model-{step}.pt")
    os.truncate("saved/model-20.pt", 3000)
newest = max(glob.glob("saved/model-*.pt"))
print("=> loading checkpoint", newest, flush=True)
print("resumed at", torch.load(newest)["step"], flush=True)
"""
    running = Running(tmp_path, "-n", "1", script=script)
    status = running.finish(150)
    told = running.out + running.err
    assert status == 0, told
    assert "move the damaged checkpoint model-20.pt to" in told
    assert "resumed at 10" in running.log(0, attempt=1)
    assert (tmp_path / "saved.aside" / "model-20.pt").exists()


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.long
def test_a_program_that_loads_before_its_first_step_starts_again_from_the_checkpoint_before(tmp_path: Path) -> None:
    """A command of the user, without --max-attempts, on one process; a byte is flipped from outside, times are new."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    save = """
import os, torch
os.mkdir("saved")
for step in (10, 20):
    torch.save({"step": step, "weights": torch.ones(10000)}, f"saved/model-{step}.pt")
"""
    saves = Running(tmp_path, script=save)
    assert saves.finish(150) == 0, saves.err
    newest = tmp_path / "saved" / "model-20.pt"
    damaged = bytearray(newest.read_bytes())
    damaged[20_000] ^= 0x40
    newest.write_bytes(damaged)
    load = """
import glob, torch
newest = max(glob.glob("saved/model-*.pt"))
print("resumed at", torch.load(newest)["step"], flush=True)
"""
    loads = Running(tmp_path, script=load)
    status = loads.finish(150)
    told = loads.out + loads.err
    assert status == 0, told
    assert "resumed at 10" in told and "resumed at 20" not in told
    assert "move the damaged checkpoint model-20.pt to" in told
    assert (tmp_path / "saved.aside" / "model-20.pt").exists()


def test_nothing_is_changed_with_remedies_off(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    with zipfile.ZipFile(tmp_path / "saved" / "model-10.pt", "w") as whole:
        whole.writestr("data", b"x" * 100)
    (tmp_path / "saved" / "model-20.pt").write_bytes(b"PK cut")
    script = """
print("=> loading checkpoint saved/model-20.pt", flush=True)
raise RuntimeError("PytorchStreamReader failed reading zip archive: failed finding central directory")
"""
    running = Running(tmp_path, "-n", "1", "--remedy", "off", script=script)
    assert running.finish() == 1
    assert len(running.manifest["attempts"]) == 1
    assert "advice: move the damaged checkpoint model-20.pt to" in running.err
    assert (tmp_path / "saved" / "model-20.pt").exists()


def test_the_hook_is_told_of_the_failure(tmp_path: Path) -> None:
    running = Running(tmp_path, "--on-failure", f"cat > {tmp_path}/told.json", script="raise ValueError('no')\n")
    assert running.finish() == 1
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["findings"][0]["cause"] == "user.code_exception"
    assert (told["run"]["action"], told["run"]["status"], told["run"]["attempt"]) == ("end", 1, 0)


TRAINING = """
import os, signal, time
os.environ["OMP_NUM_THREADS"] = "1"
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()

def made():
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    return model, torch.optim.SGD(model.parameters(), lr=0.05)

def train(model, optimizer, step):
    torch.manual_seed(step * 2 + rank)
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.02)

model, optimizer = made()
first = 0
if os.path.exists("model.pt"):
    saved = torch.load("model.pt")
    model.load_state_dict(saved["model"])
    first = saved["step"]
    print("resumed at", first, flush=True)
for step in range(first, 20):
    train(model, optimizer, step)
if rank == 0:
    torch.save({"model": model.state_dict(), "step": 20}, "model.tmp")
    os.replace("model.tmp", "model.pt")
other = made()
enough = torch.zeros(1)
while not enough:  # steps that do not count, until the test has done what it wants to do
    train(*other, 0)
    if rank == 1 and os.path.exists("strike"):
        os.remove("strike")
        os.kill(os.getpid(), signal.SIGKILL)
    enough = torch.tensor([float(os.path.exists("go-on"))])
    dist.broadcast(enough, 0)
for step in range(20, 40):
    train(model, optimizer, step)
if rank == 0:
    print("weights", [repr(value) for value in model.module.weight.double().sum(1).tolist()], flush=True)
dist.destroy_process_group()
"""


@pytest.mark.frameworks
@pytest.mark.slow
def test_a_killed_rank_comes_back_from_a_spare_with_the_same_results(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    calm = Running(tmp_path / "a", "-n", "2", "--no-spares", script=TRAINING)
    (tmp_path / "a" / "go-on").touch()
    struck = Running(tmp_path / "b", "-n", "2", script=TRAINING)
    try:
        assert calm.finish(180) == 0, calm.err
        pool = wait_for(lambda: [p for p in Path("/dev/shm").glob(f"keepstep-warm-{struck.process.pid}-*")], 60)
        wait_for(lambda: len(list(pool[0].glob("record*.json"))) == 2, 180)
        (tmp_path / "b" / "strike").touch()
        wait_for(lambda: len(struck.manifest["attempts"]) == 2, 60)
        (tmp_path / "b" / "go-on").touch()
        assert struck.finish(180) == 0, struck.err
    finally:
        calm.kill()
        struck.kill()
    told = struck.out + struck.err
    assert "decision: restart now" in told and "with 1 restart" in told
    assert "resumed at" in struck.log(0, attempt=1)
    results = [line for line in calm.log(0).splitlines() if line.startswith("weights")]
    assert results and results == [line for line in struck.log(0, attempt=1).splitlines() if line.startswith("weights")]
    assert "started cold" not in told
    assert not pool[0].exists()  # nothing of what the script put into its environment is left
