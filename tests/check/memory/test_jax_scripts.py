# SPDX-License-Identifier: Apache-2.0
"""JAX scripts as people write them, unmodified, tried for real on arrays without content."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

Try = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 900

LOOP = """
import functools
import jax, jax.numpy as jnp, numpy as np

def init(key):
    first, second = jax.random.split(key)
    return {"w": jax.random.normal(first, (1000, 3000)), "v": jax.random.normal(second, (3000, 10))}

def loss(p, x, y):
    logits = jax.nn.relu(x @ p["w"]) @ p["v"]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

@functools.partial(jax.jit, donate_argnums=0)
def step(state, x, y):
    p, m = state
    value, g = jax.value_and_grad(loss)(p, x, y)
    m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
    return (jax.tree.map(lambda a, b: a - 0.1 * b, p, m), m), value

p = init(jax.random.key(0))
state = p, jax.tree.map(jnp.zeros_like, p)
del p
for n in range(10):
    state, value = step(state, np.ones((16, 1000), np.float32), np.zeros(16, np.int32))
    print(f"{n} {value:.3f} {float(value)}", jax.device_get(value).shape)
raise SystemExit("it went on after two steps")
"""

SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
rows = NamedSharding(mesh, P("d", None))
w = jax.device_put(np.ones((4096, 1024), np.float32), rows)
m = jnp.zeros_like(w)
assert jax.device_count() == len(w.addressable_shards) == 8 and w.addressable_shards[0].data.shape == (512, 1024)

@jax.jit
def step(w, m, x):
    m = 0.9 * m + jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)
    return w - 0.1 * m, m

for _ in range(9):
    w, m = step(w, m, np.ones((64, 4096), np.float32))
raise SystemExit("it went on after two steps")
"""

TOO_LARGE = """
import jax, jax.numpy as jnp

x = jax.random.normal(jax.random.key(0), (20000, 20000, 2000))
print(x.mean())
"""

TOO_MUCH = """
import jax, jax.numpy as jnp

state = [jnp.zeros((1 << 15, 1 << 15)) for _ in range(40)]
print("made", state[0][0, 0])
"""


@pytest.fixture
def try_it(tmp_path: Path) -> Try:
    def run(text: str, *options: str, device: str = "h200", **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "train.py").write_text(text)
        command = [sys.executable, "-m", "keepstep", "check", "memory", "--device", device, *options]
        return subprocess.run(
            [*command, "--", sys.executable, "train.py"],
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    return run


def row(done: subprocess.CompletedProcess[str], name: str) -> str:
    return next(line for line in done.stdout.splitlines() if line.startswith(f"  {name}"))


def test_a_jitted_loop_fits_and_what_it_holds_is_arithmetic(try_it: Try) -> None:
    done = try_it(LOOP)
    assert done.returncode == 0, done.stdout + done.stderr
    parameters = 4 * (1000 * 3000 + 3000 * 10)
    assert f"{2 * parameters / 1e6:.1f} MB" in row(done, "arrays held")
    # the gradients of the whole, one product of the batch and what is made of it
    assert "temporaries" in done.stdout and "fits: " in done.stdout and "JAX's share (75%)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_devices_share_what_is_sharded(try_it: Try) -> None:
    done = try_it(SHARDED, "--ranks", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    share = 4 * 4096 * 1024 / 8
    batch = 4 * 64 * 4096 / 8
    assert f"{(share + batch) / 1e6:.1f} MB" in row(done, "inputs")
    assert f"{share / 1e6:.1f} MB" in row(done, "arrays held")


def test_an_array_of_3_terabytes_does_not_fit_and_its_line_is_named(try_it: Try) -> None:
    done = try_it(TOO_LARGE, "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    finding = json.loads(done.stdout)["findings"][0]
    assert (finding["rule"], finding["evidence"][0]["line"]) == ("RES108", 4)
    assert "3.2 TB" in finding["because"]


def test_the_share_that_jax_takes_decides(try_it: Try) -> None:
    done = try_it(TOO_MUCH, "--json", device="200GB")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "MEM_FRACTION" in json.dumps(json.loads(done.stdout)["findings"][0]["fixes"])
    done = try_it(TOO_MUCH, device="200GB", XLA_PYTHON_CLIENT_MEM_FRACTION=".95")
    assert done.returncode == 0 and "the whole script" in done.stdout, done.stdout + done.stderr


def test_a_script_that_fails_is_no_answer(try_it: Try) -> None:
    done = try_it(LOOP.replace("x @ p", "x.T @ p"), "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "train.py:10" in json.dumps(json.loads(done.stdout)["coverage"])


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the compiler for TPUs is not installed")
@pytest.mark.parametrize(("rows", "status"), [(1 << 10, 0), (1 << 21, 1)])
def test_the_compiler_for_tpus_decides(try_it: Try, rows: int, status: int) -> None:
    done = try_it(LOOP.replace("(16, 1000)", f"({rows}, 1000)").replace("zeros(16", f"zeros({rows}"), device="v5e")
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="the compiler for TPUs is installed")
def test_without_the_compiler_for_tpus_there_is_no_answer(try_it: Try) -> None:
    done = try_it(LOOP, device="v5e")
    assert done.returncode == 3 and "pip install libtpu" in " ".join(done.stdout.split()), done.stdout + done.stderr


def test_a_tpu_is_tried_with_jax_only(try_it: Try) -> None:
    done = try_it("import torch\n", device="v6e")
    assert done.returncode == 2 and "JAX only" in done.stderr, done.stdout + done.stderr


def test_what_the_compiler_for_tpus_says_of_a_program_that_is_too_large() -> None:
    from keepstep.check.memory.dry_run.in_jax.tpu import needs_of

    said = "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 22.50G of"
    assert needs_of(f"{said} 15.75G hbm. Exceeded hbm capacity by 6.75G.") == int(22.5 * 2**30)
    assert needs_of("INTERNAL: a scoped allocation") is None
