# SPDX-License-Identifier: Apache-2.0
"""One device, through the user's own JAX. Only the child process imports it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from keepstep.check.gpu.exercise import Spot, Wrong
from keepstep.check.gpu.known_answers import Known, Pattern, signed


def devices(kind: str) -> int:
    """How many there are of this kind."""
    jax = importlib.import_module("jax")
    try:
        return 1 if kind == "cpu" else len(jax.devices(kind))
    except RuntimeError:  # no such backend
        return 0


class JaxDevice:
    """Products and memory of the first device."""

    def __init__(self, kind: str) -> None:
        self._jax = jax = importlib.import_module("jax")
        self._jnp = jnp = jax.numpy
        self._device = jax.devices(kind)[0]
        jax.config.update("jax_default_device", self._device)
        self._chunks: list[Any] = []
        self._side = 64 if kind == "cpu" else 1024
        self.framework = f"jax {jax.__version__}"
        self.name = self.kind = "CPU" if kind == "cpu" else self._device.device_kind
        self.uuid: str | None = None
        self.dtypes = ["float32", "bfloat16", "float16", "int8"]
        if kind != "cpu":
            self.dtypes.insert(1, "tf32")
        self._same = jax.jit(lambda value, words: jnp.full(words, value, jnp.int32), static_argnums=1)
        self._address = jax.jit(lambda value, words: jnp.arange(words, dtype=jnp.int32) ^ value, static_argnums=1)
        self._differ = jax.jit(lambda chunk, value: (chunk != value).sum())
        self._differ_address = jax.jit(lambda chunk, value: ((chunk ^ value) != jnp.arange(chunk.size)).sum())

    def products(self, dtype: str, rows: Known, seconds: float) -> Iterator[Wrong | None]:
        """One after the other, for this long: None for each that is right."""
        jax, jnp, size = self._jax, self._jnp, len(rows.left)
        kind = jnp.float32 if dtype == "tf32" else getattr(jnp, dtype)
        result = jnp.int32 if dtype == "int8" else jnp.float32
        precision = "tensorfloat32" if dtype == "tf32" else "highest"
        to = jnp.arange(size)
        plus, minus = (to[:, None] + to) % size, (to[:, None] - to) % size
        left, right = jnp.array(rows.left).astype(kind)[plus], jnp.array(rows.right).astype(kind)[minus]
        wanted = jnp.array(rows.product).astype(result)[plus]

        def compute(left: Any, right: Any, wanted: Any) -> Any:
            with jax.default_matmul_precision(precision):
                product = jnp.matmul(left, right, preferred_element_type=result)
            return product, (product != wanted).sum()

        compiled = jax.jit(compute)
        until = time.monotonic() + seconds
        while True:
            product, differs = compiled(left, right, wanted)
            count = int(differs)
            if not count:
                yield None
            else:
                row, column = (int(each[0]) for each in jnp.nonzero(product != wanted))
                seen, right_one = product[row, column].item(), wanted[row, column].item()
                place = f"row {row}, column {column}"
                yield Wrong("product", dtype, count, size * size, place, f"{seen:g}", f"{right_one:g}")
            if time.monotonic() > until:
                return

    def bits(self) -> str:
        """The bits of a few computations whose inputs are the same everywhere."""
        jax, jnp = self._jax, self._jnp
        first, second = (
            jax.random.normal(key, (self._side, self._side)) for key in jax.random.split(jax.random.key(1))
        )
        with jax.default_matmul_precision("highest"):
            results = (first @ second, jax.nn.softmax(first, 1), jnp.sin(second).sum(0))
        return " ".join(self._digest(each) for each in results)

    def _digest(self, array: Any) -> str:
        """Two sums over the raw bits: the second sees swaps too."""
        bits = self._jax.lax.bitcast_convert_type(array, self._jnp.uint32).ravel()
        weights = self._jnp.arange(1, bits.size + 1, dtype=self._jnp.uint32)
        return f"{int(bits.sum()):08x}{int((bits * weights).sum()):08x}"

    def free(self) -> int | None:
        """Bytes that nothing uses; None: not known."""
        found = self._device.memory_stats() if self._device.platform != "cpu" else None
        return found["bytes_limit"] - found["bytes_in_use"] if found else None

    def take(self, words: int, most: int) -> int:
        """Take up to ``most`` pieces of so many words; how many there are."""
        self._words = words
        try:
            while len(self._chunks) < most:
                self._chunks.append(self._same(0, words).block_until_ready())
        except self._jax.errors.JaxRuntimeError:  # no memory is left
            del self._chunks[-4:]
        return len(self._chunks)

    def fill(self, pattern: Pattern) -> None:
        make = self._address if pattern.address else self._same
        for number, chunk in enumerate(self._chunks):
            chunk.delete()
            self._chunks[number] = make(pattern.of_piece(number), self._words)
        self._jax.block_until_ready(self._chunks)

    def verify(self, pattern: Pattern) -> Iterator[Spot]:
        """Where memory does not hold what it was filled with: at most one place for each piece."""
        jnp, differ = self._jnp, self._differ_address if pattern.address else self._differ
        for number, chunk in enumerate(self._chunks):
            value = pattern.of_piece(number)
            count = int(differ(chunk, value))
            if count:
                wanted = jnp.arange(self._words, dtype=jnp.int32) ^ value if pattern.address else value
                word = int(jnp.argmax(chunk != wanted))
                right_one = signed(value ^ (word if pattern.address else 0))
                yield Spot(number, word, count, int(chunk[word]), right_one)
