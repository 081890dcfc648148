# SPDX-License-Identifier: Apache-2.0
"""Trains a small model per round, in one of the frameworks, and changes bits of a replica in most rounds.

python job.py FRAMEWORK FIRST LAST [--healthy]: these rounds; of them, only the healthy ones
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import sys
import time
from collections import OrderedDict
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from benchmarks.silent_jobs.faults import AFTER, STEPS, STUCK, STUCK_STEPS, SilentFault, fault, strike

REPLICAS, WIDTH = 3, 24
NOTICED_S, HEALTHY_S = 30.0, 1.5


def struck(number: int, step: int, chosen: str) -> None:
    print(f"struck {number} {step} {chosen}", flush=True)


def is_found(number: int) -> bool:
    folder, wanted = os.environ.get("KEEPSTEP_DIR", "."), f"round_{number}".encode()
    return any(
        (b'Odd"' in line or b'ReplicasNotFinite"' in line) and (wanted + b"." in line or wanted + b"_" in line)
        for each in pathlib.Path(folder).glob("*.jsonl")
        for line in each.read_bytes().splitlines()
    )


def ended(number: int, drawn: SilentFault | None, loss: float) -> None:
    """Give the guard's thread the time that a longer training has."""
    if drawn is None:
        print(f"loss {number} {loss:.9g}", flush=True)
    if os.environ.get("KEEPSTEP") == "off" or (drawn is not None and drawn.where != AFTER):
        return
    end = time.monotonic() + (NOTICED_S if drawn is not None else HEALTHY_S)
    while time.monotonic() < end and not is_found(number):
        time.sleep(0.05)


def data(number: int, step: int, replica: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng((number, step, replica))
    return source.normal(size=(8, 12)).astype("float32"), source.normal(size=(8, 4)).astype("float32")


def in_torch(rounds: range, healthy: bool) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    counter = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])  # one that leads through all rounds: steps count on
    total = 0

    def train(number: int, drawn: SilentFault | None) -> None:
        nonlocal total
        torch.manual_seed(number)
        layers = torch.nn.Sequential(torch.nn.Linear(12, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 4))
        inner = torch.nn.Sequential(OrderedDict({f"round_{number}": layers}))
        model = torch.nn.parallel.DistributedDataParallel(inner)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        strikes = drawn is not None and drawn.replica == rank
        in_layer = drawn is not None and drawn.where != AFTER
        stuck = drawn is not None and drawn.where == STUCK
        begun, used, told = total, list[int](), list[int]()

        def is_on() -> bool:
            """In every computation from the fault on, or in one alone."""
            late = total - begun >= drawn.after_step  # type: ignore[union-attr]
            used.extend([1] * late)
            return late and (stuck or len(used) == 1)

        def tell(place: str) -> None:
            if not told:
                told.append(1)
                struck(number, total + 1, place.format(f"round_{number}"))

        if strikes and in_layer:
            from benchmarks.silent_jobs.broken_layer import break_layer

            break_layer(layers, drawn, is_on, tell)  # type: ignore[arg-type]
        for step in range(1, (STUCK_STEPS if stuck else STEPS) + 1):
            x, y = (torch.from_numpy(each) for each in data(number, step, rank))
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            counter.step()
            optimizer.step()
            total += 1
            if strikes and not in_layer and drawn is not None and drawn.after_step == step:
                named = list(inner.named_parameters())
                name, tensor = named[int(drawn.tensor * len(named))]
                if drawn.state:
                    tensor = optimizer.state[tensor]["exp_avg" if drawn.word < 0.5 else "exp_avg_sq"]
                strike(tensor.data_ptr(), tensor.numel(), drawn)
                struck(number, total, name)
            if stuck and step % 8 == 0 and step > STEPS:
                found = torch.tensor(float(is_found(number)))
                dist.broadcast(found, 0)
                if found:
                    break
        dist.barrier()
        ended(number, drawn, float(loss.detach()))
        dist.barrier()

    for number in rounds:
        if (drawn := fault("torch", number, REPLICAS)) is None or not healthy:
            train(number, drawn)
        gc.collect()
    dist.destroy_process_group()


def in_workers(rounds: range, healthy: bool) -> None:
    """TensorFlow, each replica a process."""
    port = int(os.environ["MASTER_PORT"])
    workers = [f"127.0.0.1:{port + place}" for place in range(REPLICAS)]
    task = {"type": "worker", "index": int(os.environ["RANK"])}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    in_tensorflow(rounds, healthy)


def in_tensorflow(rounds: range, healthy: bool) -> None:
    """One process with several devices, or one of several workers."""
    import tensorflow as tf

    mine = int(os.environ["RANK"]) if "TF_CONFIG" in os.environ else None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy: Any
    if mine is None:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    total = 0

    def train(number: int, drawn: SilentFault | None) -> None:
        nonlocal total
        with strategy.scope():
            start = np.random.default_rng(number)
            weights = [
                tf.Variable(start.normal(size=shape).astype("float32") * 0.3, name=f"round_{number}_{name}")
                for name, shape in (("first", (12, WIDTH)), ("bias", (WIDTH,)), ("second", (WIDTH, 4)))
            ]
            optimizer = tf.keras.optimizers.Adam(0.01)

        def step_of(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.tanh(x @ weights[0] + weights[1]) @ weights[2] - y) ** 2) / REPLICAS
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        for step in range(1, STEPS + 1):
            fed = [data(number, step, replica) for replica in range(REPLICAS)]
            x, y = (
                strategy.experimental_distribute_values_from_function(
                    lambda context, part=part, fed=fed: tf.constant(fed[context.replica_id_in_sync_group][part])
                )
                for part in (0, 1)
            )
            loss = strategy.reduce("SUM", strategy.run(step_of, (x, y)), axis=None)
            total += 1
            if drawn is not None and drawn.after_step == step and mine in (None, drawn.replica):
                place = int(drawn.tensor * len(weights))
                chosen = weights[place]
                if drawn.state:
                    slots = [each.value for each in optimizer.variables if tuple(each.shape) == tuple(chosen.shape)]
                    chosen = slots[int(drawn.word * len(slots))]
                part = chosen.values[drawn.replica if mine is None else 0]
                before = part.numpy()
                memory = part.read_value()._numpy()
                strike(memory.ctypes.data, memory.size, drawn)
                if (part.numpy().view("u4") == before.view("u4")).all():  # it was a copy: then by this replica's own
                    with tf.device(part.device):
                        part.assign(memory)
                struck(number, total, weights[place].name.partition(":")[0])
        ended(number, drawn, float(loss))

    for number in rounds:
        if (drawn := fault("tensorflow", number, REPLICAS)) is None or not healthy:
            train(number, drawn)


def in_jax(rounds: range, healthy: bool) -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    rank = int(os.environ["RANK"])
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", REPLICAS, rank)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_row, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        first, second = weights.values()
        return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)

    def update(weights: Any, momentum: Any, x: Any, y: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
        momentum = {name: 0.9 * momentum[name] + slopes[name] for name in momentum}
        return {name: weights[name] - 0.05 * momentum[name] for name in weights}, momentum, loss

    step_of = jax.jit(update, donate_argnums=(0, 1))
    total = 0

    def train(number: int, drawn: SilentFault | None) -> None:
        nonlocal total
        start = np.random.default_rng(number)
        shapes = {f"round_{number}_first": (12, WIDTH), f"round_{number}_second": (WIDTH, 4)}
        weights = {
            name: jax.device_put(start.normal(size=shape).astype("float32") * 0.3, whole)
            for name, shape in shapes.items()
        }
        momentum = {name: jax.device_put(np.zeros(shape, "float32"), whole) for name, shape in shapes.items()}
        for step in range(1, STEPS + 1):
            x, y = (jax.make_array_from_process_local_data(by_row, each) for each in data(number, step, rank))
            weights, momentum, loss = step_of(weights, momentum, x, y)
            total += 1
            if drawn is not None and (drawn.after_step, drawn.replica) == (step, rank):
                name = list(shapes)[int(drawn.tensor * len(shapes))]
                chosen = (momentum if drawn.state else weights)[name].block_until_ready().addressable_shards[0].data
                strike(chosen.unsafe_buffer_pointer(), chosen.size, drawn)
                struck(number, total, name)
        ended(number, drawn, float(loss))

    for number in rounds:
        if (drawn := fault("jax", number, REPLICAS)) is None or not healthy:
            train(number, drawn)


if __name__ == "__main__":
    framework, first, last = sys.argv[1:4]
    trains = {"torch": in_torch, "tensorflow": in_tensorflow, "workers": in_workers, "jax": in_jax}[framework]
    trains(range(int(first), int(last) + 1), "--healthy" in sys.argv)
