# SPDX-License-Identifier: Apache-2.0
"""What programs may do with JAX, as odd as it may be: prints what comes out, or what was raised."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ROWS = np.arange(8, dtype="float32").reshape(2, 4) / 10
MESH = Mesh(np.array(jax.devices()), ("data",))
SPLIT, WHOLE = NamedSharding(MESH, PartitionSpec("data")), NamedSharding(MESH, PartitionSpec())


def attempt(name: str, call: Callable[[], Any]) -> None:
    try:
        found = [np.asarray(each).tolist() if hasattr(each, "shape") else each for each in jax.tree.leaves(call())]
        print(name, found)
    except Exception as error:
        print(name, "raised", type(error).__name__)


@jax.jit
def step(weights: Any, rows: Any) -> Any:
    loss, gradient = jax.value_and_grad(lambda weights: ((rows @ weights) ** 2).mean())(weights)
    return weights - 0.1 * gradient, loss


@functools.partial(jax.jit, donate_argnums=0)
def donated(state: Any, rows: Any) -> Any:
    return {"weights": state["weights"] - rows.mean(0), "none": None}


def trained(rows: Any = ROWS) -> Any:
    weights = jnp.ones(4)
    for number in range(6):
        weights, loss = step(weights, jax.device_put(rows + number))
        float(loss)
    return weights, loss


def sharded() -> Any:
    weights = jax.device_put(jnp.ones(4), WHOLE)
    for number in range(4):
        rows = jax.make_array_from_process_local_data(SPLIT, np.ones((8, 4), "float32") * number)
        weights, loss = step(weights, rows)
    return weights, loss


def deleted() -> Any:
    state = {"weights": jnp.ones(4), "none": None}
    for _ in range(4):
        before, state = state, donated(state, ROWS)
    return before["weights"] + 1


def several(call: Callable[[Any], Any], given: Any, times: int = 3) -> Any:
    return [call(given) for _ in range(times)][-1]


def in_threads() -> Any:
    found: list[Any] = [None] * 3

    def work(number: int) -> None:
        found[number] = trained(ROWS * number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def called_back() -> Any:
    seen: list[Any] = []
    call = jax.jit(lambda rows: (jax.debug.callback(lambda total: seen.append(total.tolist()), rows.sum()), rows)[1])
    several(call, ROWS)
    jax.effects_barrier()
    return seen


class Odd:
    """A tree of its own that cannot be compared, hashed or shown."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


jax.tree_util.register_pytree_node(Odd, lambda odd: ((odd.value,), None), lambda _, children: Odd(*children))


def main() -> None:
    key = jax.random.key(0)
    attempt("training", trained)
    attempt("sharded", sharded)
    attempt("donated", deleted)
    attempt("no result", lambda: several(jax.jit(lambda rows: None), ROWS))
    attempt("mapped", lambda: jax.vmap(lambda row: step(jnp.ones(4), row[None])[1])(jnp.asarray(ROWS)))
    attempt("pmap", lambda: several(jax.pmap(lambda each: jax.lax.psum(each, "i"), "i"), jnp.arange(4.0)))
    attempt("callback", lambda: jax.make_array_from_callback((8, 4), SPLIT, lambda i: np.ones((8, 4), "float32")[i]))
    attempt("failing callback", lambda: jax.make_array_from_callback((8, 4), SPLIT, lambda index: 1 / 0))
    attempt("put, traced", lambda: several(jax.jit(lambda rows: jax.device_put(rows, WHOLE) * 2), ROWS))
    with jax.checking_leaks():
        attempt("leaks", lambda: jax.jit(lambda rows: jax.device_put({"a": rows, "b": rows})["b"])(ROWS))
    for given in (np.array(["a"]), np.array([object()]), object(), None, np.zeros(2, [("a", "f4")]), key):
        attempt(f"put {type(given).__name__}", lambda given=given: jax.device_put(given) and 0)
    attempt("put nothing", lambda: jax.device_put())
    attempt("keys", lambda: jax.random.key_data(several(jax.jit(lambda key: jax.random.split(key)[0]), key)))
    attempt("float0", lambda: str(jax.grad(lambda n: (n * 2.0).sum(), allow_int=True)(jnp.arange(3)).dtype))
    attempt("called back", called_back)
    attempt("odd tree", lambda: several(jax.jit(lambda odd: Odd(odd.value + 1)), Odd(jnp.ones(2))).value)
    attempt("ahead of time", lambda: step.lower(jnp.ones(4), ROWS).compile()(jnp.ones(4), ROWS))
    attempt("other shapes", lambda: [step(jnp.ones(4), np.ones((rows, 4), "float32"))[1] for rows in range(1, 4)])
    attempt("wrong shape", lambda: step(jnp.ones(4), np.ones((2, 5), "float32")))
    with jax.disable_jit():
        attempt("not compiled", lambda: step(jnp.ones(4), ROWS))
    attempt("threads", in_threads)
    raise SystemExit(3)


if __name__ == "__main__":
    main()
