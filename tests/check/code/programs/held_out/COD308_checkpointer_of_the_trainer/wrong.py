# SPDX-License-Identifier: Apache-2.0
"""Trains a model whose trainer saves it with orbax after every epoch.

From: https://orbax.readthedocs.io/en/latest/api_reference/checkpoint.options.html
Shows: error 2 ranks jax: the first process waits until gloo gives up after 30 s
"""

import os
import pathlib
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


@dataclass
class Settings:
    epochs: int = 2
    steps: int = 5
    folder: pathlib.Path = pathlib.Path(os.environ.get("WORK_DIR", ".")).resolve() / "epochs"


@jax.jit
def train_step(params, target):
    grads = jax.grad(lambda p: jnp.mean((p["scale"] * p["shift"] - target) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)


class Trainer:
    def __init__(self, settings):
        self.settings = settings
        self.is_main = jax.process_index() == 0
        self.mesh = Mesh(np.array(jax.devices()), ("d",))
        self.checkpointer = ocp.StandardCheckpointer()

    def start(self):
        sharding = NamedSharding(self.mesh, P("d"))
        part = np.ones(3, np.float32)
        return {name: jax.make_array_from_process_local_data(sharding, part) for name in ("scale", "shift")}

    def save(self, epoch, params):
        self.checkpointer.save(self.settings.folder / f"epoch-{epoch}", params)
        self.checkpointer.wait_until_finished()

    def fit(self):
        params = self.start()
        for epoch in range(self.settings.epochs):
            for _ in range(self.settings.steps):
                params = train_step(params, np.float32(4.0))
            if self.is_main:
                self.save(epoch, params)  # BUG COD308
        return params


def main():
    jax.distributed.initialize(
        os.environ["COORDINATOR_ADDRESS"], int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    )
    settings = Settings()
    trainer = Trainer(settings)
    params = trainer.fit()
    if trainer.is_main:
        saved = sorted(path.name for path in settings.folder.iterdir())
        print(saved, round(float(params["scale"].addressable_data(0)[0]), 2))


if __name__ == "__main__":
    main()
