# SPDX-License-Identifier: Apache-2.0
"""Saves and loads in many formats as told by lines of its input: ``job.py torch|tensorflow|jax FOLDER KILOBYTES``.

Every array holds the same noise plus the number of the save, so a load can tell which save it got and whether each
value is right. Each answer is one line: ``ANSWER ...``.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KEPT = 3
ROOT, KILOBYTES = Path(sys.argv[2]), int(sys.argv[3])
Way = tuple[Callable[[Path, int], Any], Callable[[Path], list[Any]], str]
"""How to save, how to load (the arrays), and the name of the checkpoint with the number ``%d``."""


def arrays(number: int) -> dict[str, Any]:
    source = np.random.default_rng(1)
    rows = max(2, KILOBYTES * 1024 // 4 // 256 // 4)
    return {name: source.normal(size=(rows, 256)).astype("float32") + number for name in ("a", "b", "c", "d")}


def judged(found: list[Any]) -> str:
    """Whether all of it is of one save, value for value."""
    wanted = arrays(0)
    number = round(float(np.median(np.asarray(found[0]) - wanted["a"])))
    right = [value for _ in range(len(found) // 4) for value in arrays(number).values()]
    same = len(found) >= 4 and all(np.array_equal(np.asarray(one), is_) for one, is_ in zip(found, right, strict=True))
    return f"whole {number}" if same else "wrong"


def torch_ways() -> dict[str, Way]:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    if os.environ.get("WORLD_SIZE"):
        dist.init_process_group("gloo")
    torch.set_num_threads(1)

    def state(number: int) -> dict[str, Any]:
        return {name: torch.from_numpy(value) for name, value in arrays(number).items()}

    def values(one: Any) -> list[Any]:
        return [one[name].numpy() for name in ("a", "b", "c", "d")]

    def save(path: Path, number: int) -> None:
        torch.save({"model": state(number), "optimizer": state(number)}, path)

    def load(path: Path) -> list[Any]:
        found = torch.load(path)
        return values(found["model"]) + values(found["optimizer"])

    def save_sharded(path: Path, number: int) -> None:
        dcp.save({"model": state(number), "optimizer": state(number)}, checkpoint_id=path)

    def load_sharded(path: Path) -> list[Any]:
        found = {"model": state(0), "optimizer": state(0)}
        dcp.load(found, checkpoint_id=path)
        return values(found["model"]) + values(found["optimizer"])

    def save_tensors(path: Path, number: int) -> None:
        """As the trainer of a well-known library does: a folder of shards, and the optimizer beside them."""
        path.mkdir(exist_ok=True)
        whole = state(number)
        for place, names in enumerate((("a", "b"), ("c", "d")), 1):
            save_file({name: whole[name] for name in names}, path / f"model-0000{place}-of-00002.safetensors")
        torch.save(whole, path / "optimizer.pt")

    def load_tensors(path: Path) -> list[Any]:
        found = {}
        for place in (1, 2):
            found.update(load_file(path / f"model-0000{place}-of-00002.safetensors"))
        return values(found) + values(torch.load(path / "optimizer.pt"))

    return {
        "torch.save": (save, load, "step_%d.pt"),
        "torch.save-in-place": (save, load, "last.pt"),
        "DCP": (save_sharded, load_sharded, "step_%d"),
        "safetensors": (save_tensors, load_tensors, "checkpoint-%d"),
    }


def tensorflow_ways() -> dict[str, Way]:
    import keras
    import tensorflow as tf

    one = {name: tf.Variable(tf.zeros_like(value)) for name, value in arrays(0).items()}
    two = {name: tf.Variable(tf.zeros_like(value)) for name, value in arrays(0).items()}
    rows = arrays(0)["a"].shape[0]
    layers = [keras.layers.Dense(256, use_bias=False, name=name) for name in ("a", "b", "c", "d")]
    entry = keras.layers.Input((rows,), name="entry")
    model = keras.Model(entry, [layer(entry) for layer in layers])
    model.compile("sgd", ["mse"] * 4)

    def save(path: Path, number: int) -> None:
        checkpoint = tf.train.Checkpoint(model=one, optimizer=two)
        for name, value in arrays(number).items():
            one[name].assign(value)
            two[name].assign(value)
        manager = tf.train.CheckpointManager(checkpoint, str(path.parent), max_to_keep=KEPT)
        manager.save(checkpoint_number=number)

    def load(path: Path) -> list[Any]:
        tf.train.Checkpoint(model=one, optimizer=two).restore(str(path)).expect_partial()
        return [each.numpy() for each in (*one.values(), *two.values())]

    def with_values(number: int) -> Any:
        model.set_weights(list(arrays(number).values()))
        return model

    def weights(path: Path) -> list[Any]:
        with_values(-1).load_weights(path)
        return model.get_weights()

    return {
        "TF checkpoint": (save, load, "ckpt-%d"),
        "Keras .keras": (
            lambda path, number: with_values(number).save(path),
            lambda path: keras.models.load_model(path).get_weights(),
            "step_%d.keras",
        ),
        "Keras .weights.h5": (
            lambda path, number: with_values(number).save_weights(path),
            weights,
            "step_%d.weights.h5",
        ),
    }


def jax_ways() -> dict[str, Way]:
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    checkpointer = ocp.StandardCheckpointer()

    def state(number: int) -> Any:
        whole = {name: jnp.asarray(value) for name, value in arrays(number).items()}
        return {"model": whole, "optimizer": whole}

    def save(path: Path, number: int) -> None:
        checkpointer.save(path.absolute(), state(number))
        checkpointer.wait_until_finished()

    def load(path: Path) -> list[Any]:
        found = checkpointer.restore(path.absolute(), state(0))
        return [found[part][name] for part in ("model", "optimizer") for name in ("a", "b", "c", "d")]

    return {"Orbax": (save, load, "step_%d")}


def answer(words: str) -> None:
    print(f"ANSWER {words}", flush=True)


def saves(ways: dict[str, Way], names: list[str], first: int) -> None:
    """Until somebody ends the process. The oldest ones are deleted, as scripts do."""
    rank = int(os.environ.get("RANK", "0"))
    for number in range(first, 1_000_000):
        for name in names:
            save, _, called = ways[name]
            if rank and name != "DCP":
                continue
            folder = ROOT / name
            save(folder / (called % number if "%" in called else called), number)
            old = folder / (called % (number - KEPT) if "%" in called else "none")
            if rank == 0 and old.exists():
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        answer(f"saved {number}")


def main() -> None:
    ways = {"torch": torch_ways, "tensorflow": tensorflow_ways, "jax": jax_ways}[sys.argv[1]]()
    for name in ways:
        (ROOT / name).mkdir(parents=True, exist_ok=True)
    answer("ready")
    for line in sys.stdin:
        verb, *rest = line.rstrip("\n").split("\t")
        if verb == "saves":
            saves(ways, rest[1:], int(rest[0]))
            continue
        save, load, called = ways[rest[0]]
        path = ROOT / rest[0] / (rest[1] if len(rest) > 1 else called % 1)
        try:
            if verb == "save":
                save(path, 1)
                answer("saved 1")
            elif verb == "time":
                began, worked = time.perf_counter(), time.process_time()
                load(path)
                answer(f"took {time.perf_counter() - began} {time.process_time() - worked}")
            elif verb == "many":
                began, worked = time.perf_counter(), time.process_time()
                for number in range(int(rest[2])):
                    save(path.with_name(f"sample-{number}.pt"), 1)
                answer(f"took {time.perf_counter() - began} {time.process_time() - worked}")
            else:
                answer(judged(load(path)))
        except BaseException as error:  # some of torch's are no Exception
            answer(f"refused {type(error).__name__}")


if __name__ == "__main__":
    main()
