# SPDX-License-Identifier: Apache-2.0
"""What is established ends the wait, and an idle rank gets no longer than a restart costs. Real programs, two ranks."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lazy_framework import need_framework
from tests.supervise.starting import Running, wait_for

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

TORCH = """
import os, sys, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as Parallel
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
model = Parallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first = torch.load("model.pt")["step"] if os.path.exists("model.pt") else 0
def train(until, begin=0):
    for step in range(begin, until):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            torch.save({"step": step + 1}, "model.pt")
            print("step", step, flush=True)
"""
JAX = """
import time, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize()
rank = jax.process_index()
mesh = Mesh(np.array(jax.devices()), ("d",))
@jax.jit
def step(w, x):
    return w - 0.01 * jnp.mean(x @ w)
w = jax.device_put(jnp.ones((4,)), NamedSharding(mesh, P()))
for i in range(2000):
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), np.ones((8, 4), np.float32))
    w = jax.block_until_ready(step(w, x))
    time.sleep(0.02)
    if i == 40 and rank == 1:
        raise ValueError("bad sample")
"""
TENSORFLOW = """
import json, os, time, tensorflow as tf
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
again = os.path.exists("slept")
tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4)])
@tf.function
def train_step(rows):
    def replica_step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(rows, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("mean", gradients)
        for variable, gradient in zip(model.trainable_variables, gradients):
            variable.value.assign_sub(0.01 * gradient)
    strategy.run(replica_step, args=(rows,))
for i in range(60):
    if i == 40 and rank == 1 and not again:
        open("slept", "w").close()
        time.sleep(600)
    train_step(tf.ones((4, 8)))
    time.sleep(0.02)
print("trained", flush=True)
"""


def raised(run: Running, attempt: int = 0) -> dict[str, Any]:
    """The last words of a rank."""
    lines = [
        line
        for path in (run.run / f"attempt-{attempt}" / "guard").glob("*.notes.jsonl")
        for line in path.read_text().splitlines()
    ]
    found: dict[str, Any] = next(note for line in lines if (note := json.loads(line))["fact"] == "RankRaised")
    return found


def decided_s(run: Running, attempt: int = 0) -> float:
    """From the report of the guard to the decision."""
    return float(run.manifest["attempts"][attempt]["told"]) - float(raised(run, attempt)["at"])


ROOM_S = 8.0
"""Beyond the promised 2 s: other tests share these cores, and the report is made on one of them."""


def test_an_exception_in_jax_is_not_waited_for_at_the_exit_barrier(tmp_path: Path) -> None:
    need_framework("jax")
    run = Running(tmp_path, "-n", "2", "--no-spares", script=JAX)
    assert run.finish() == 1
    assert "rank 1 failed with an error but has not exited" in run.err
    assert (
        re.search(r"decision: end the run: rank 1 raised ValueError in train.py:\d+: bad sample", run.err)
        and "decision: wait" not in run.err
    )
    assert decided_s(run) < 2.0 + ROOM_S


@pytest.mark.parametrize(
    "leave",
    [
        "try:\n    train(30)\n    if rank == 1: raise KeyError('lost')\n    train(3000)\nfinally:\n    dist.barrier()",
        pytest.param(
            "import threading\ntrain(30)\nif rank == 1:\n    threading.Thread(target=time.sleep, args=(600,)).start()\n"
            "    raise KeyError('lost')\ntrain(3000)",
            marks=pytest.mark.long,
        ),
    ],
    ids=["finally", "a thread that lives on"],
)
def test_an_exception_in_torch_is_not_waited_for_on_its_way_out(tmp_path: Path, leave: str) -> None:
    need_framework("torch")
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TORCH + leave)
    assert run.finish() == 1
    assert re.search(r"decision: end the run: rank 1 raised KeyError in train.py:\d+", run.err), run.err
    assert "decision: wait" not in run.err and decided_s(run) < 2.0 + ROOM_S
    assert "raised KeyError" in run.err


@pytest.mark.long
def test_a_rank_that_saves_before_it_leaves_may_finish_that(tmp_path: Path) -> None:
    need_framework("torch")
    save = """
try:
    train(30)
    if rank == 1: raise KeyError('lost')
    train(3000)
finally:
    if rank == 1:
        end = time.monotonic() + 4
        while time.monotonic() < end: torch.save(torch.ones(100_000), "emergency.pt")
        open("saved", "w").close()
        dist.barrier()
"""
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TORCH + save)
    assert run.finish() == 1
    assert (tmp_path / "saved").exists() and "decision: end the run: rank 1 raised KeyError" in run.err


@pytest.mark.long
def test_an_exception_under_the_users_launcher_is_told_at_once_and_nothing_is_ended(tmp_path: Path) -> None:
    need_framework("torch")
    leave = (
        "try:\n    train(30)\n    if rank == 1: raise KeyError('lost')\n    train(3000)\nfinally:\n    dist.barrier()"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    run = Running(tmp_path, script=TORCH + leave, command=command)
    wait_for(lambda: (run.run / "attempt-0" / "report.json").exists())
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGINT)
    run.finish()
    assert "rank 1 raised KeyError" in run.err and "it is left running" in run.err
    assert len(run.manifest["attempts"]) == 1 and "decision: restart" not in run.err


@pytest.mark.long
def test_a_sleeping_rank_gets_no_longer_than_a_restart_costs(tmp_path: Path) -> None:
    need_framework("torch")
    sleep = (
        "if first == 0:\n    train(90)\n    if rank == 1: time.sleep(600)\n"
        "train(150, begin=first)\nprint('trained', flush=True)"
    )
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TORCH + sleep)
    assert run.finish() == 0, run.err
    assert re.search(
        r"a restart costs about [\d.]+ s \([\d.]+ s to start, [\d.]+ s of work since step 81\)", run.err
    ), run.err
    assert "with 1 restart" in run.err and "trained" in run.log(0, attempt=1) and "10 min" not in run.err


@pytest.mark.long
def test_a_sleeping_rank_of_tensorflow_comes_back_too(tmp_path: Path) -> None:
    need_framework("tensorflow")
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TENSORFLOW, env={"TF_CPP_MIN_LOG_LEVEL": "2"})
    assert run.finish() == 0, run.err
    assert "of work since the start of the attempt, with nothing saved" in run.err
    assert "with 1 restart" in run.err


@pytest.mark.long
def test_a_rank_that_works_alone_is_not_restarted(tmp_path: Path) -> None:
    """An evaluation and a save by rank 0 alone, by no name that tells it, in a run whose restart costs little."""
    need_framework("torch")
    alone = """
train(60)
if rank == 0:
    end = time.monotonic() + 20
    with torch.no_grad():
        while time.monotonic() < end: model.module(torch.ones(2000, 8)).sum().item()
dist.barrier()
train(30)
if rank == 0:
    end = time.monotonic() + 12
    while time.monotonic() < end: torch.save(torch.ones(500_000), "copy.pt")
dist.barrier()
train(30)
"""
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TORCH + alone)
    assert run.finish() == 0, run.err
    assert "decision: restart" not in run.err and len(run.manifest["attempts"]) == 1


@pytest.mark.long
def test_a_collective_of_one_rank_ends_the_run(tmp_path: Path) -> None:
    need_framework("torch")
    odd = "train(40)\nif rank == 0: dist.all_gather([torch.ones(3), torch.ones(3)], torch.ones(3))\ntrain(3000)"
    run = Running(tmp_path, "-n", "2", "--no-spares", script=TORCH + odd)
    assert run.finish() != 0
    assert "decision: restart" not in run.err and len(run.manifest["attempts"]) == 1, run.err


def test_a_script_that_starts_over_is_ended_before_it_overwrites_its_checkpoints(tmp_path: Path) -> None:
    """It saves, and never loads: a first restart cannot know that, and the second attempt shows it."""
    need_framework("torch")
    script = TORCH.replace('torch.load("model.pt")["step"] if os.path.exists("model.pt") else 0', "0")
    script += "if os.environ['KEEPSTEP_ATTEMPT'] == '0':\n    train(80)\n    os.kill(os.getpid(), 9)\ntrain(3000)\n"
    script = script.replace(
        "if rank == 0 and step % 20 == 0:",
        "if rank == 0: print(f'iter {step}: loss 0.5', flush=True)\n        if rank == 0 and step % 20 == 19:",
    )
    run = Running(tmp_path, "-n", "2", "--no-spares", "--max-lost-work", "1s", script=script)
    assert run.finish() != 0
    assert "decision: restart now" in run.err and "began at its first step again" in run.err, run.err
    assert len(run.manifest["attempts"]) == 2


def test_workers_that_call_each_other_by_rpc_do_not_train_alone(tmp_path: Path) -> None:
    """Torch's RPC forms no process group."""
    script = """
import os, torch
import torch.distributed.rpc as rpc
rank, place = int(os.environ["RANK"]), f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
options = rpc.TensorPipeRpcBackendOptions(init_method=place)
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    other = rpc.rpc_sync(f"worker{1 - rank}", torch.add, args=(torch.ones(2), 1))
    (model(torch.ones(2)).sum() + other.sum()).backward()
    optimizer.step()
rpc.shutdown()
"""
    run = Running(tmp_path, "-n", "2", "--no-spares", script=script)
    assert run.finish() == 0, run.err
    assert "alone" not in run.err + run.out


@pytest.mark.long
def test_a_save_that_only_the_first_rank_begins_ends_the_run(tmp_path: Path) -> None:
    """As Orbax does it: all processes must meet in a save. The others go on to their next step.

    At once where native stacks show the collective of the others; on a crowded host those may be missing, and then the
    second time at the same line.
    """
    script = """
import time, numpy, jax, jax.numpy as jnp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize()
mesh = Mesh(numpy.array(jax.devices()), ("x",))
spread, whole = NamedSharding(mesh, PartitionSpec("x")), NamedSharding(mesh, PartitionSpec())
data = jax.make_array_from_process_local_data(spread, numpy.ones((4,), numpy.float32))
step = jax.jit(lambda w, d: w - 0.1 * jnp.sum(d * w), out_shardings=whole)
w = jax.device_put(numpy.float32(1.0), whole)
def save(): multihost_utils.sync_global_devices("save")
for n in range(60):
    if n == 20 and jax.process_index() == 0: save()
    w = step(w, data)
    w.block_until_ready()
    time.sleep(0.02)
"""
    need_framework("jax")
    run = Running(tmp_path, "-n", "2", "--no-spares", script=script)
    assert run.finish(300) == 1
    assert "decision: end the run" in run.err
    assert len(run.manifest["attempts"]) <= 2, run.err
