# SPDX-License-Identifier: Apache-2.0
"""What this rank is fed, as hashes of a few batches: a rule compares them with those of the other ranks.

Only the first batches of an epoch are hashed, only a bounded part of each, and only what lies on the host.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from keepstep.guard.batches import leaves

if TYPE_CHECKING:
    from keepstep.guard.needs import Strict

FIRST = 4
"""Batches of the first epoch."""
MOST_EPOCHS = 16
"""Of each further epoch, its first batch."""
LARGEST = 1 << 16
"""Bytes of each tensor."""


class Fed:
    """Hashes that wait until it is known whether the ranks train on different data by design."""

    def __init__(self, session: Strict) -> None:
        self._session = session
        self._waiting: list[tuple[int, int, str]] = []

    def wants(self, epoch: int, batch: int) -> bool:
        """Whether this batch of an epoch, both counted from 1, is to be hashed."""
        return batch <= (FIRST if epoch == 1 else 1) and epoch <= MOST_EPOCHS

    def see(self, epoch: int, batch: int, data: Any) -> None:
        digest = digest_of(data)
        if digest is not None:
            self._waiting.append((epoch, batch, digest))

    def stepped(self, data_parallel: bool) -> None:
        """A step was taken. Where the groups are not known, nothing is noted."""
        if not self._waiting:
            return
        if data_parallel:
            for epoch, batch, digest in self._waiting:
                fields = {"epoch": epoch, "batch": batch, "digest": digest}
                self._session.note("BatchFed", fields, f"batch {batch} of epoch {epoch} has the hash {digest}")
        self._waiting.clear()


def digest_of(batch: Any) -> str | None:
    """A hash of the beginning of every tensor of a batch.

    None where one is not on the host, or none has rows: numbers, such as a step's, are the same on all ranks.
    """
    parts = leaves(batch)
    if not any(shape for _, shape, _, _ in parts):
        return None
    found = hashlib.blake2b(digest_size=8)
    for name, shape, dtype, tensor in parts:
        data = _bytes(tensor)
        if data is None:
            return None
        found.update(f"{name} {shape} {dtype} ".encode())
        found.update(data)
    return found.hexdigest()


def _bytes(tensor: Any) -> bytes | None:
    device = getattr(tensor, "device", None)
    if device is not None and not str(getattr(device, "type", device)).lower().endswith(("cpu", "cpu:0")):
        return None
    try:
        if hasattr(tensor, "numpy") and not hasattr(tensor, "detach"):
            tensor = tensor.numpy()
        size = tensor.element_size() if hasattr(tensor, "element_size") else tensor.itemsize
        flat = tensor.detach().reshape(-1) if hasattr(tensor, "detach") else tensor.reshape(-1)
        some = flat[: LARGEST // size]
        return bytes((some.numpy() if hasattr(some, "numpy") else some).tobytes())
    except Exception:  # a type that NumPy does not know, a tensor without storage
        return None
