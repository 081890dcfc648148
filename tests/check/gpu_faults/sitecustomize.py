# SPDX-License-Identifier: Apache-2.0
"""Faults of devices, put under the children of `keepstep check gpu` from outside: GPU_FAULT says which."""

from __future__ import annotations

import importlib
import mmap
import os
import sys
from typing import Any


def break_host() -> None:
    """Byte 4,096 of all memory that is mapped loses its lowest bit."""
    real = mmap.mmap

    class Lossy(real):  # type: ignore[misc,valid-type]
        def __getitem__(self, key: Any) -> Any:
            found = real.__getitem__(self, key)
            if isinstance(key, slice) and key.start == 0:
                found = found[:4096] + bytes([found[4096] & 0xFE]) + found[4097:]
            return found

    mmap.mmap = Lossy  # type: ignore[misc]


def break_torch(torch: Any) -> None:
    """bfloat16 products have one wrong number, memory loses bit 4 of its tenth word, and sines differ each time."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Faulty(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            name = str(function)
            if name.startswith("aten.mm.") and result.dtype == torch.bfloat16:
                result[3, 5] += 1
            elif name.startswith("aten.fill_.") and result.dtype == torch.int32:
                result[10] &= ~16
            elif name.startswith("aten.sin."):
                self.calls += 1
                result[0, 0] = self.calls
            return result

    Faulty().__enter__()


if "keepstep.check.gpu.child" in " ".join(sys.orig_argv):
    if os.environ.get("GPU_FAULT") == "host":
        break_host()
    elif os.environ.get("GPU_FAULT") == "torch":
        real_import = importlib.import_module

        def import_module(name: str, package: str | None = None) -> Any:
            fresh = name == "torch" and name not in sys.modules
            found = real_import(name, package)
            if fresh:
                break_torch(found)
            return found

        importlib.import_module = import_module
