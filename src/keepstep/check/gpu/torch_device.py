# SPDX-License-Identifier: Apache-2.0
"""One device, through the user's own torch. Only the child process imports it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from keepstep.check.gpu.exercise import Spot, Wrong
from keepstep.check.gpu.known_answers import Known, Pattern, signed


def devices(kind: str) -> int:
    """How many there are of this kind."""
    torch = importlib.import_module("torch")
    return 1 if kind == "cpu" else int(torch.cuda.device_count())


class TorchDevice:
    """Products and memory of the first device."""

    def __init__(self, kind: str) -> None:
        self._torch = torch = importlib.import_module("torch")
        self._device = torch.device(kind)
        self._chunks: list[Any] = []
        self.uuid: str | None = None
        self._side = 64 if kind == "cpu" else 1024
        self.dtypes = ["float64", "float32", "bfloat16", "float16", "int8"]
        self.framework = f"torch {torch.__version__}"
        if kind == "cpu":
            self.name = self.kind = "CPU"
            return
        self.dtypes.insert(2, "tf32")
        found = torch.cuda.get_device_properties(0)
        self.name, self.kind = found.name, f"{found.name}, {found.multi_processor_count} multiprocessors"
        self.uuid = f"GPU-{found.uuid}" if hasattr(found, "uuid") else None
        for name in (
            "allow_bf16_reduced_precision_reduction",
            "allow_fp16_reduced_precision_reduction",
            "allow_fp16_accumulation",
        ):
            if hasattr(torch.backends.cuda.matmul, name):
                setattr(torch.backends.cuda.matmul, name, False)

    def products(self, dtype: str, rows: Known, seconds: float) -> Iterator[Wrong | None]:
        """One after the other, for this long: None for each that is right."""
        torch, size = self._torch, len(rows.left)
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
        kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        to = torch.arange(size, device=self._device)
        plus, minus = (to[:, None] + to) % size, (to[:, None] - to) % size

        def matrix(row: list[int], places: Any, kind: Any) -> Any:
            return torch.tensor(row, device=self._device).to(kind)[places]

        left, right = matrix(rows.left, plus, kind), matrix(rows.right, minus, kind)
        multiply = torch.mm
        if dtype == "int8":
            multiply, kind, right = torch._int_mm, torch.int32, right.t().contiguous().t()
        wanted = matrix(rows.product, plus, kind)
        until = time.monotonic() + seconds
        while True:
            product = multiply(left, right)
            differs = product != wanted
            count = int(differs.sum())
            if not count:
                yield None
            else:
                row, column = (int(each) for each in differs.nonzero()[0])
                seen, right_one = product[row, column].item(), wanted[row, column].item()
                place = f"row {row}, column {column}"
                yield Wrong("product", dtype, count, size * size, place, f"{seen:g}", f"{right_one:g}")
            if time.monotonic() > until:
                return

    def bits(self) -> str:
        """The bits of a few computations whose inputs are the same everywhere."""
        torch = self._torch
        torch.set_float32_matmul_precision("highest")
        source = torch.Generator().manual_seed(1)
        first, second = (torch.randn(self._side, self._side, generator=source).to(self._device) for _ in range(2))
        results = (
            first @ second,
            (first.bfloat16() @ second.bfloat16()).float(),
            first.softmax(1),
            second.sin().sum(0),
        )
        return " ".join(self._digest(each) for each in results)

    def _digest(self, tensor: Any) -> str:
        """Two sums over the raw bits: the second sees swaps too."""
        bits = tensor.cpu().contiguous().view(self._torch.int32).flatten().long()
        weights = self._torch.arange(1, bits.numel() + 1)
        return f"{int(bits.sum()) & 0xFFFFFFFF:08x}{int((bits * weights).sum()) & 0xFFFFFFFF:08x}"

    def free(self) -> int | None:
        """Bytes that nothing uses; None: not known."""
        if self._device.type == "cpu":
            return None
        self._torch.cuda.empty_cache()
        return int(self._torch.cuda.mem_get_info(0)[0])

    def take(self, words: int, most: int) -> int:
        """Take up to ``most`` pieces of so many words; how many there are."""
        torch = self._torch
        self._places = torch.arange(words, dtype=torch.int32, device=self._device)
        self._scratch = torch.empty_like(self._places)
        try:
            while len(self._chunks) < most:
                self._chunks.append(torch.empty_like(self._places))
        except torch.cuda.OutOfMemoryError:
            del self._chunks[-4:]
        return len(self._chunks)

    def fill(self, pattern: Pattern) -> None:
        for number, chunk in enumerate(self._chunks):
            if pattern.address:
                self._torch.bitwise_xor(self._places, pattern.of_piece(number), out=chunk)
            else:
                chunk.fill_(pattern.of_piece(number))

    def verify(self, pattern: Pattern) -> Iterator[Spot]:
        """Where memory does not hold what it was filled with: at most one place for each piece."""
        for number, chunk in enumerate(self._chunks):
            wanted: Any = pattern.of_piece(number)
            if pattern.address:
                wanted = self._torch.bitwise_xor(self._places, wanted, out=self._scratch)
            differs = chunk != wanted
            count = int(differs.sum())
            if count:
                word = int(differs.nonzero()[0, 0])
                right_one = signed(pattern.of_piece(number) ^ (word if pattern.address else 0))
                yield Spot(number, word, count, int(chunk[word]), right_one)
