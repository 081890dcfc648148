# SPDX-License-Identifier: Apache-2.0
"""A program as users write them: ``saves_and_loads.py torch|tensorflow save|load`` in the current folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def torch_ways() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    model = torch.nn.Linear(300, 300)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 300)).sum().backward()
        optimizer.step()

    def renamed() -> None:
        torch.save(model.state_dict(), "ckpt/renamed.tmp")
        os.replace("ckpt/renamed.tmp", "ckpt/renamed.pt")

    def streamed() -> None:
        with open("ckpt/streamed.pt", "wb") as stream:
            torch.save(optimizer.state_dict(), stream)

    def sharded() -> dict[str, Any]:
        return {"model": model.state_dict()}

    return {
        "plain.pt": (lambda: torch.save(model.state_dict(), "ckpt/plain.pt"), lambda: torch.load("ckpt/plain.pt")),
        "renamed.pt": (renamed, lambda: torch.load("ckpt/renamed.pt")),
        "streamed.pt": (streamed, lambda: torch.load("ckpt/streamed.pt")),
        "model.safetensors": (
            lambda: save_file(model.state_dict(), "ckpt/model.safetensors"),
            lambda: load_file("ckpt/model.safetensors"),
        ),
        "step_2": (
            lambda: dcp.save(sharded(), checkpoint_id="ckpt/step_2"),
            lambda: dcp.load(sharded(), checkpoint_id="ckpt/step_2"),
        ),
    }


def tensorflow_ways() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.Sequential([keras.layers.Input((30,)), keras.layers.Dense(300), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((8, 30)), np.ones((8, 1)), verbose=0)
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, "ckpt", max_to_keep=3)
    return {
        "model.keras": (lambda: model.save("ckpt/model.keras"), lambda: keras.models.load_model("ckpt/model.keras")),
        "model.weights.h5": (
            lambda: model.save_weights("ckpt/model.weights.h5"),
            lambda: model.load_weights("ckpt/model.weights.h5"),
        ),
        "ckpt-1": (manager.save, lambda: checkpoint.restore("ckpt/ckpt-1")),
    }


def main() -> None:
    ways = {"torch": torch_ways, "tensorflow": tensorflow_ways}[sys.argv[1]]()
    os.makedirs("ckpt", exist_ok=True)
    for name, (save, load) in ways.items():
        if sys.argv[2] == "save":
            save()
            continue
        try:
            load()
            print(f"{name}: loaded", flush=True)
        except Exception as error:
            print(f"{name}: {type(error).__name__}", flush=True)


if __name__ == "__main__":
    main()
