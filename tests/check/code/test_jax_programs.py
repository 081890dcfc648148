# SPDX-License-Identifier: Apache-2.0
"""JAX programs in other words than those of the examples: what must be found on which line, and what must not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from keepstep.check.code.check_code import CodeRequest, check_code

START = "import os\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\n"


def found_in(text: str, folder: Path) -> set[tuple[str, int]]:
    """Rules of JAX and of collectives, with the lines they name."""
    program = folder / "program.py"
    program.write_text(START + textwrap.dedent(text))
    report = check_code(CodeRequest(paths=(program,), select=("COD3", "COD00"))).report
    assert not report.crashed
    return {(each.rule, each.evidence[0].origin.line or 0) for each in report.findings}


def labelled(text: str) -> set[tuple[str, int]]:
    lines = (START + textwrap.dedent(text)).split("\n")
    return {(line.rpartition("# ")[2], number) for number, line in enumerate(lines, 1) if "# COD" in line}


WRONG = {
    "the number of processes decides whether they are initialised": """
        def setup():
            if jax.process_count() > 1:  # COD301
                jax.distributed.initialize()
        """,
    "a model is made before the function that initialises is called": """
        def build():
            return jnp.zeros((4, 4))

        def join():
            jax.distributed.initialize(os.environ["ADDRESS"], 2, int(os.environ["PROCESS_ID"]))

        def main():
            model = build()  # COD301
            join()
            return model
        """,
    "a returned compiled step is run by the first process": """
        from jax.sharding import Mesh

        def make_step(mesh):
            return jax.jit(lambda x: x.sum())

        def main(mesh, x):
            step = make_step(mesh)
            if jax.process_index() == 0:
                print(step(x))  # COD303
        """,
    "the others leave before a pmapped step": """
        update = jax.pmap(lambda x: x + 1)

        def main(x):
            if jax.process_index() != 0:
                return  # COD303
            update(x)
        """,
    "a collective is reported before a compiled step": """
        from jax.experimental import multihost_utils
        from jax.sharding import Mesh

        @jax.jit
        def loss(x):
            return x.sum()

        def main(x):
            if jax.process_index() == 0:
                print(loss(x))
                multihost_utils.sync_global_devices("done")  # COD001
        """,
    "a manager that another function made": """
        import orbax.checkpoint as ocp

        def manager(path):
            return ocp.CheckpointManager(path)

        def inner(kept, step, state):
            kept.save(step, args=ocp.args.StandardSave(state))

        def main(path, state):
            kept = manager(path)
            if jax.process_index() == 0:
                kept.save(0, args=ocp.args.StandardSave(state))  # COD308
        """,
    "a checkpointer in an attribute": """
        import orbax.checkpoint as ocp

        class Saver:
            def __init__(self):
                self.checkpointer = ocp.StandardCheckpointer()

            def save(self, path, state):
                if jax.process_index() == 0:
                    self.checkpointer.save(path, state)  # COD308
        """,
    "the others return before a checkpoint": """
        from flax.training import checkpoints

        def save(path, state, step):
            if jax.process_index() != 0:
                return  # COD002
            checkpoints.save_checkpoint_multiprocess(path, state, step)
        """,
    "a lambda that is mapped gathers": """
        from jax.experimental import multihost_utils

        def write(tree, path):
            if jax.process_index() == 0:
                np.savez(path, jax.tree.map(lambda x: multihost_utils.process_allgather(x), tree))  # COD001
        """,
    "the first few processes take one row more": """
        def part(table, sharding):
            base, rest = divmod(len(table), jax.process_count())
            size = base + (1 if jax.process_index() < rest else 0)  # COD304
            return jax.make_array_from_process_local_data(sharding, table[:size])
        """,
    "keys for all devices go to pmap": """
        def main(step, key):
            jax.distributed.initialize()
            keys = jax.random.split(key, jax.device_count())  # COD305
            jax.pmap(step)(keys)
        """,
    "all processes draw with one seed": """
        def batches(sharding):
            rng = np.random.default_rng(7)  # COD306
            while True:
                rows = rng.normal(size=(8, 2)).astype(np.float32)
                yield jax.make_array_from_process_local_data(sharding, rows)
        """,
    "an attribute is donated and read in the next turn": """
        class Trainer:
            def __init__(self, step, params):
                self.params = params
                self.step = jax.jit(step, donate_argnums=(0,))

            def time(self, grads):
                for _ in range(10):
                    self.step(self.params, grads)  # COD307
        """,
    "a method donates by position after self": """
        from functools import partial

        class Trainer:
            @partial(jax.jit, static_argnums=0, donate_argnums=(1,))
            def step(self, params, grads):
                return params - grads

            def run(self, params, grads):
                new = self.step(params, grads)
                return new - params  # COD307
        """,
    "a NumPy type is given to jax.numpy": """
        def table(rows):
            return jnp.asarray(rows, dtype=np.float64)  # COD309
        """,
    "an array is cast": """
        def table(rows):
            return jnp.asarray(rows).astype("float64")  # COD309
        """,
}

RIGHT = {
    "each device trains a model of its own": """
        def learn(weights, rows):
            return jax.tree.map(lambda w, g: w - g, weights, jax.grad(loss)(weights, rows))

        run = jax.pmap(learn)
        """,
    "a helper averages the gradients": """
        def shared(grads):
            return jax.lax.pmean(grads, "all")

        def learn(state, rows):
            grads = jax.grad(loss)(state.params, rows)
            return state.apply_gradients(grads=shared(grads))

        run = jax.pmap(learn, axis_name="all")
        """,
    "every process puts the same rows on its own devices": """
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        def put(rows):
            jax.distributed.initialize()
            mesh = Mesh(np.array(jax.local_devices()), ("rows",))
            sharding = NamedSharding(mesh, P("rows"))
            batch = jax.device_put(rows[jax.process_index()], sharding)
            return np.asarray(batch)
        """,
    "what is put whole everywhere can be read everywhere": """
        from jax.sharding import NamedSharding, PartitionSpec as P

        def put(weights):
            jax.distributed.initialize()
            mesh = jax.make_mesh((jax.device_count(),), ("rows",))
            everywhere = NamedSharding(mesh, P())
            copy = jax.device_put(weights, everywhere)
            return np.asarray(copy)
        """,
    "initialised first, in another function": """
        def join():
            jax.distributed.initialize()
            print(jax.devices())

        def main():
            join()
            return jnp.zeros(3)
        """,
    "devices are used where nothing is initialised afterwards": """
        def main(alone):
            if alone:
                print(jax.devices())
            else:
                jax.distributed.initialize()
        """,
    "a result is logged by one process, computed by all": """
        from jax.sharding import Mesh

        @jax.jit
        def loss(x):
            return x.sum()

        def main(x):
            value = loss(x)
            if jax.process_index() == 0:
                print(value)
        """,
    "a compiled function on local arrays": """
        @jax.jit
        def shrink(image):
            return image[::2]

        def show(image):
            if jax.process_index() == 0:
                print(shrink(image))
        """,
    "pmap over the devices of this process": """
        from jax.sharding import Mesh

        local = jax.pmap(lambda x: x, devices=jax.local_devices())

        def show(x):
            if jax.process_index() == 0:
                print(local(x))
        """,
    "only some processes take part, as orbax was told": """
        import orbax.checkpoint as ocp

        def main(path, state):
            options = ocp.CheckpointManagerOptions(
                multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
            )
            manager = ocp.CheckpointManager(path, options=options)
            if jax.process_index() == 0:
                manager.save(0, args=ocp.args.StandardSave(state))
        """,
    "a global batch is divided among all devices": """
        def main(step, batch, size):
            assert size % jax.device_count() == 0
            jax.pmap(step)(batch.reshape(jax.local_device_count(), -1))
        """,
    "a donated state is assigned anew in a loop": """
        step = jax.jit(lambda state, batch: state + batch, donate_argnums=0)

        def main(state, batches):
            for batch in batches:
                state = step(state, batch)
            print(state)
        """,
    "only the shape of a donated state is read": """
        step = jax.jit(lambda state, batch: state + batch, donate_argnums=0)

        def main(state, batch):
            new = step(state, batch)
            print(state.shape)
            return new
        """,
    "a batch that no result fits": """
        step = jax.jit(lambda state, batch: (state, 0), donate_argnums=(0, 1))

        def main(state, batch):
            state, loss = step(state, batch)
            print(batch.mean())
            return state
        """,
    "gradients and loss are averaged in one call": """
        @jax.pmap
        def alone(weights, batch):
            loss, grads = jax.value_and_grad(cost)(weights, batch)
            return jax.tree.map(lambda w, g: w - g, weights, grads), loss

        def step(weights, batch):
            both = jax.value_and_grad(cost)(weights, batch)
            loss, grads = jax.lax.pmean(both, "d")
            return jax.tree.map(lambda w, g: w - g, weights, grads), jax.lax.pmean(loss, "d")

        mapped = jax.pmap(step, axis_name="d")
        """,
    "the loss is averaged where it is differentiated": """
        def cost(weights, batch):
            loss = ((batch @ weights) ** 2).mean()
            return jax.lax.pmean(loss, "d")

        def step(weights, batch):
            loss, grads = jax.value_and_grad(cost)(weights, batch)
            return jax.tree.map(lambda w, g: w - g, weights, grads), jax.lax.pmean(loss, "d")

        mapped = jax.pmap(step, axis_name="d")
        """,
    "a clock ends steps on arrays of this process": """
        import time

        def main(step, weights, batches):
            jax.distributed.initialize()
            step = jax.jit(step)
            for batch in batches:
                weights = step(weights, jnp.asarray(batch))
                if time.monotonic() > 5:
                    break
            return weights
        """,
    "x64 in a block": """
        from jax.experimental import enable_x64

        def table(rows):
            with enable_x64():
                return jnp.asarray(rows, dtype=jnp.float64)
        """,
    "the host is the caller's to name": """
        from jax.experimental import multihost_utils

        def is_time(step, host=None):
            return step % 10 == 0 and (host is None or jax.process_index() == host)

        def main(step):
            if is_time(step):
                multihost_utils.sync_global_devices("time")
        """,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_labelled_line_is_named_and_no_other(name: str, tmp_path: Path) -> None:
    assert labelled(WRONG[name])
    assert found_in(WRONG[name], tmp_path) == labelled(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    assert found_in(RIGHT[name], tmp_path) == set()
