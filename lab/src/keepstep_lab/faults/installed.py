# SPDX-License-Identifier: Apache-2.0
"""What is installed differs between the hosts, or is missing."""

from __future__ import annotations

import ctypes
import importlib
from typing import TYPE_CHECKING

from . import Fault
from ._script import ScriptMistake

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class OtherVersion(Fault):
    """The rank's host has an older version of a small package of the project, which lacks a function."""

    NEW = '__version__ = "2.1.0"\n\n\ndef scale(step):\n    return min(1.0, (step + 1) / 10)\n'
    OLD = '__version__ = "1.4.2"\n'

    def prepare(self, run: Run) -> None:
        for folder, text in (("packages", self.NEW), ("packages-old", self.OLD)):
            (run.work / folder).mkdir()
            (run.work / folder / "warmup.py").write_text(text)
        for rank, env in enumerate(run.env):
            folder = "packages-old" if rank in (run.scenario.strike_ranks or (1,)) else "packages"
            env["PYTHONPATH"] = f"{run.work / folder}:{env['PYTHONPATH']}"
            env["KEEPSTEP_LAB_RANK"] = ",".join(map(str, range(run.scenario.ranks)))

    def at(self, step: int, rank: int) -> None:
        warmup = importlib.import_module("warmup")
        print(f"warmup version {warmup.__version__}", flush=True)
        print(f"learning rate scale {warmup.scale(step)}", flush=True)

    def proof(self, run: Run) -> str:
        old = run.proof_in_log(run.scenario.struck, "warmup version 1.4.2")
        return f"{old}; {run.proof_in_log(0, 'warmup version 2.1.0')}"


class OlderPackage(OtherVersion):
    """The rank's host has an older version of a small package, which works, but computes something else."""

    OLD = '__version__ = "1.4.2"\n\n\ndef scale(step):\n    return 1.0\n'

    def proof(self, run: Run) -> str:
        return f"{super().proof(run)}; {run.proof_in_log(run.scenario.struck, 'learning rate scale')}"


class MissingLibrary(Fault):
    """A compiled extension needs a shared library that the node of this rank does not have."""

    NAME = "libcudart.so.12"

    def at(self, step: int, rank: int) -> None:
        ctypes.CDLL(self.NAME)

    def proof(self, run: Run) -> str:
        return run.proof_in_log(run.scenario.struck, f"{self.NAME}: cannot open shared object file")


class NoGpu(ScriptMistake):
    """The job was given GPUs, but its environment reaches none: it trains on the CPU and ends well."""

    GIVEN = "    print(f\"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}\", flush=True)\n"
    EDITS = {
        "torch": ("    torch.set_num_threads(1)\n", '    torch.amp.GradScaler("cuda")\n'),
        "tensorflow": (
            "    tf.config.threading.set_intra_op_parallelism_threads(1)\n",
            "    if not tf.config.list_physical_devices('GPU'):\n"
            "        print('no GPU found, training on the CPU', flush=True)\n",
        ),
    }
    WORDS = {"torch": "CUDA is not available", "tensorflow": "no GPU found"}

    def edits_of(self, run: Run) -> tuple[tuple[str, str], ...]:
        line, more = self.EDITS[run.scenario.framework]
        return ((line, line + self.GIVEN + more),)

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        for rank, env in enumerate(run.env):
            env["CUDA_VISIBLE_DEVICES"] = str(rank)

    def proof(self, run: Run) -> str:
        told = run.proof_in_log(run.scenario.struck, self.WORDS[run.scenario.framework])
        return f"{told}; {run.proof_in_log(run.scenario.struck, 'CUDA_VISIBLE_DEVICES=')}"
