# SPDX-License-Identifier: Apache-2.0
"""A "fast" augmentation in native code, with the kind of mistake that only strikes in the middle of a run."""

from __future__ import annotations

import ctypes

import numpy as np

_memmove = ctypes.CDLL(None).memmove
_memmove.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memmove.restype = ctypes.c_void_p


class Mixer:
    """Keeps the last batch in native memory to mix it with the next one."""

    def __init__(self, forget_after: int | None) -> None:
        self._kept: int | None = None
        self._owner: np.ndarray | None = None
        self._left = forget_after

    def mix(self, batch: np.ndarray) -> np.ndarray:
        """The batch, its first half taken from the one before."""
        if self._owner is not None:
            if self._left == 0:
                self._kept = 0  # the bug: the buffer was given back, its address is still used
            half = batch.nbytes // 2
            _memmove(batch.ctypes.data, self._kept, half)
        self._owner = batch.copy()
        self._kept = self._owner.ctypes.data
        if self._left is not None:
            self._left -= 1
        return batch
