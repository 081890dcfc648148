# SPDX-License-Identifier: Apache-2.0
"""Ranks that fail or leave in their own code, native or Python."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class NativeSegfault(Fault):
    """The rank reads address 0 in native code: SIGSEGV, as a broken extension module would."""

    def at(self, step: int, rank: int) -> None:
        ctypes.string_at(0)

    def proof(self, run: Run) -> str:
        return run.proof_of_signal(run.scenario.struck, signal.SIGSEGV)


class CppAbort(Fault):
    """Native code throws a C++ exception that nothing catches: std::terminate, then SIGABRT."""

    def at(self, step: int, rank: int) -> None:
        library = ctypes.CDLL("libstdc++.so.6")
        library._ZSt20__throw_length_errorPKc(b"vector::_M_default_append")

    def proof(self, run: Run) -> str:
        return run.proof_of_signal(run.scenario.struck, signal.SIGABRT)


class IllegalInstruction(Fault):
    """The rank runs machine code that this CPU does not have: SIGILL, as a binary built for a newer CPU would."""

    UD2 = b"\x0f\x0b"

    def at(self, step: int, rank: int) -> None:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(self.UD2)
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

    def proof(self, run: Run) -> str:
        return run.proof_of_signal(run.scenario.struck, signal.SIGILL)


class KeyError_(Fault):
    """The user's code looks up a key that one rank's sample does not have."""

    def at(self, step: int, rank: int) -> None:
        sample = {"pixels": [0.0], "target": 3}
        print(sample["label"])

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, "KeyError: 'label'")


class BlockingFinally(Fault):
    """The user's code raises, and a `finally` then waits for a file that the other ranks will never write."""

    def at(self, step: int, rank: int) -> None:
        sample = {"pixels": [0.0], "target": 3}
        try:
            print(sample["label"])
        finally:
            while not os.path.exists("all-ranks-are-done"):
                time.sleep(0.2)

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        told = run.proof_that_it_struck()
        if not run.alive(rank):
            raise run.unproven(f"rank {rank} is not in its `finally`: it has ended")
        return f"{told} and waits in its `finally`"


class GpuAssert(Fault):
    """A kernel on the GPU looks up a class that does not exist: a device-side assert."""

    def at(self, step: int, rank: int) -> None:
        import torch

        table = torch.zeros(10, 4, device="cuda")
        print(torch.nn.functional.embedding(torch.tensor([10], device="cuda"), table).sum().item())

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, "device-side assert")


class GpuOom(Fault):
    """The rank asks for more memory than its GPU has."""

    def at(self, step: int, rank: int) -> None:
        import torch

        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, "out of memory")


class BigConstant(Fault):
    """A tf.function holds its data as constants: the graph grows past protobuf's limit of 2 GB."""

    ELEMENTS = 1_150_000_000 // 4

    def at(self, step: int, rank: int) -> None:
        import numpy as np
        import tensorflow as tf

        table = np.ones((self.ELEMENTS,), dtype="float32")

        def lookup(index: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.constant(table), index) + tf.gather(tf.constant(table + 1), index)

        print(tf.function(lookup)(tf.constant(3)))

    def proof(self, run: Run) -> str:
        return f"{run.proof_that_it_struck()}: two constants of {4 * self.ELEMENTS >> 20} MB in one graph"


class FolderRace(Fault):
    """Every rank prepares the same cache folder: looks whether it is there, and makes it. One comes second."""

    def at(self, step: int, rank: int) -> None:
        self.prepare_cache(Path(os.environ["KEEPSTEP_LAB_WORK"]) / "cache")

    def prepare_cache(self, folder: Path) -> None:
        """Make the folder unless it is there."""
        if not folder.exists():
            time.sleep(1.0)
            os.mkdir(folder)

    def proof(self, run: Run) -> str:
        for rank in range(run.scenario.ranks):
            if "FileExistsError" in run.log_of(rank):
                return f"rank {rank} found that another had made the folder between its look and its mkdir"
        raise run.unproven("no rank came second")


class LeavesEarly(Fault):
    """The rank has done what it thinks is enough and exits with 0; the others still need it."""

    def at(self, step: int, rank: int) -> None:
        print(f"target reached at step {step}, leaving", flush=True)
        os._exit(0)  # as scripts do to get past threads that would keep them

    def proof(self, run: Run) -> str:
        rank = run.scenario.struck
        if run.status_of(rank) != 0:
            raise run.unproven(f"rank {rank} did not exit with 0: {run.status_of(rank)}")
        return f"{run.proof_in_log(rank, 'target reached')}; its status is 0"
