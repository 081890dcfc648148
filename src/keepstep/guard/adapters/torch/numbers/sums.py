# SPDX-License-Identifier: Apache-2.0
"""Sums over the bits of tensors, taken on the device and read when it has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

LINE = 1024
"""Words."""


class Timed(Protocol):
    """Wants to know how long the device needed."""

    device_s: float


class Sums:
    """Two sums of each tensor, by the device."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._words = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
        self._weights: dict[Any, Any] = {}

    def of(self, tensors: Sequence[Any], *, by_column: bool) -> Result:
        torch = self._torch
        on_device = tensors[0].device.type == "cuda"
        with torch.no_grad():
            began = self._mark() if on_device else None
            lines = torch.empty((len(tensors), LINE), dtype=torch.int64, device=tensors[0].device)
            for tensor, line in zip(tensors, lines.unbind(), strict=True):
                self.line(tensor, by_column, line)
            sums = self.both(lines)
            if not on_device:
                return Result(sums, None, None)
            host = torch.empty(sums.shape, dtype=sums.dtype, device="cpu", pin_memory=True)
            host.copy_(sums, non_blocking=True)
            return Result(host, began, self._mark())

    def both(self, lines: Any) -> Any:
        """The two sums of each line."""
        return self._torch.stack((lines.sum(1), (lines * self._places(lines.device)).sum(1)))

    def _mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def line(self, tensor: Any, by_column: bool = False, out: Any = None) -> Any:
        """Its words added up to one line, along rows or columns of a table: one operation on the device for most, and
        as few calls as possible, since a GPU adds them up faster than the host asks for it."""
        torch, words = self._torch, self.words(tensor)
        rest = words.numel() % LINE
        if not rest and words.numel():
            table = words.view(-1, LINE) if by_column else words.view(LINE, -1)
            return torch.sum(table, 0 if by_column else 1, dtype=torch.int64, out=out)
        words = words.view(-1)
        whole = words.numel() - rest
        if not whole:
            lines = torch.nn.functional.pad(words.to(torch.int64), (0, LINE - rest))
        else:
            table = words[:whole].view(-1, LINE) if by_column else words[:whole].view(LINE, -1)
            lines = table.sum(0 if by_column else 1, dtype=torch.int64)
            lines[:rest] += words[whole:]
        return lines if out is None else out.copy_(lines)

    def words(self, tensor: Any) -> Any:
        """The bits as the widest integers that fit: a processor adds those fastest."""
        size = tensor.element_size()
        aligned = tensor.dim() and tensor.shape[-1] * size % 8 == 0 and tensor.storage_offset() * size % 8 == 0
        if aligned and tensor.is_contiguous():
            return tensor.view(self._torch.int64)
        if not tensor.is_contiguous():  # channels last: the same bits in another order
            order = sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), dim))
            tensor = tensor.permute(order)
        flat = tensor.reshape(-1)  # a copy where there are gaps in between
        for width, kind in self._words:
            if flat.numel() * size % width == 0 and flat.storage_offset() * size % width == 0:
                return flat.view(kind)
        raise ValueError(f"{tensor.dtype} cannot be read as integers")

    def _places(self, device: Any) -> Any:
        """Odd weights: a change of one word changes the sum, whatever it is."""
        if device not in self._weights:
            self._weights[device] = self._torch.arange(1, 2 * LINE, 2, dtype=self._torch.int64, device=device)
        return self._weights[device]


class Result:
    """The sums, which a device may still be working on."""

    def __init__(self, sums: Any, began: Any, done: Any) -> None:
        self._sums, self._began, self._done = sums, began, done
        self.timed: Timed | None = None

    def read(self) -> list[tuple[int, int]] | None:
        """By the guard's thread; None while the device works."""
        if self._done is not None:
            if not self._done.query():
                return None
            if self.timed is not None:
                self.timed.device_s = self._began.elapsed_time(self._done) / 1e3
        return list(zip(*self._sums.tolist(), strict=True))
