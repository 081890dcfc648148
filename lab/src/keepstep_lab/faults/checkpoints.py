# SPDX-License-Identifier: Apache-2.0
"""What the ranks resume from, and what they save."""

from __future__ import annotations

import os
import subprocess
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class GoodCheckpoint(Fault):
    """Not a fault: a sound torch checkpoint to resume from."""

    SAVE = """
import sys, torch, train
torch.save({"model": train.Classifier().state_dict(), "step": 40}, sys.argv[1])
"""

    def prepare(self, run: Run) -> None:
        path = run.work / "last.pt"
        run.in_training_python(self.SAVE, str(path))
        run.give_all("--resume", str(path))

    def proof(self, run: Run) -> str:
        return run.proof_in_log(0, "resumed from")


class TruncatedCheckpoint(GoodCheckpoint):
    """The torch checkpoint to resume from lost its second half, as after a kill in the middle of a save."""

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        run.cut(run.work / "last.pt")

    proof = Fault.proof


class EmptyCheckpoint(Fault):
    """The torch checkpoint to resume from has no bytes, as after a save to a full disk."""

    def prepare(self, run: Run) -> None:
        path = run.work / "last.pt"
        path.write_bytes(b"")
        run.give_all("--resume", str(path))

    def proof(self, run: Run) -> str:
        if (run.work / "last.pt").stat().st_size:
            raise run.unproven("last.pt has bytes")
        return "last.pt has no bytes"


class OtherCheckpoint(Fault):
    """The torch checkpoint to resume from is of a wider model with another layer."""

    SAVE = """
import sys, torch, train
state = train.Classifier(width=96).state_dict()
state["extra.weight"] = state.pop("auxiliary.weight")
torch.save({"model": state, "step": 40}, sys.argv[1])
print(*state)
"""

    def prepare(self, run: Run) -> None:
        path = run.work / "last.pt"
        names = run.in_training_python(self.SAVE, str(path))
        run.strike(f"last.pt has the keys {names.strip()}")
        run.give_all("--resume", str(path))


class GoodDcp(Fault):
    """Not a fault: a sound sharded checkpoint (torch.distributed.checkpoint) to resume from."""

    WIDTH = 32
    SAVE = """
import sys, torch, train
import torch.distributed.checkpoint as dcp
state = train.Encoder(width=int(sys.argv[2])).state_dict()
dcp.save({"model": state, "step": torch.tensor(20)}, checkpoint_id=sys.argv[1], no_dist=True)
"""

    def prepare(self, run: Run) -> None:
        folder = run.work / "sharded"
        run.in_training_python(self.SAVE, str(folder), str(self.WIDTH))
        run.give_all("--resume", str(folder))

    def proof(self, run: Run) -> str:
        return run.proof_in_log(0, "resumed from")


class TruncatedDcp(GoodDcp):
    """One file of the sharded checkpoint to resume from lost its second half."""

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        run.cut(min((run.work / "sharded").glob("*.distcp")))

    proof = Fault.proof


class OtherDcp(GoodDcp):
    """The sharded checkpoint to resume from is of a model with another layer."""

    WIDTH = 48

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        run.strike("the checkpoint is of a model of width 48, the job's has 32")

    proof = Fault.proof


class GoodNpz(Fault):
    """Not a fault: a sound .npz checkpoint to resume from."""

    WIDTH = 64

    def prepare(self, run: Run) -> None:
        import numpy as np

        source = np.random.default_rng(3)
        path = run.work / "last.npz"
        w1, w2 = source.normal(size=(32, self.WIDTH)) * 0.2, source.normal(size=(self.WIDTH, 10)) * 0.2
        np.savez(path, w1=w1.astype("f4"), w2=w2.astype("f4"), step=40)
        run.give_all("--resume", str(path))

    def proof(self, run: Run) -> str:
        return run.proof_in_log(0, "restored")


class TruncatedNpz(GoodNpz):
    """The .npz checkpoint to resume from lost its second half, as after a kill in the middle of a save."""

    def prepare(self, run: Run) -> None:
        super().prepare(run)
        run.cut(run.work / "last.npz")

    def proof(self, run: Run) -> str:
        path = run.work / "last.npz"
        if zipfile.is_zipfile(path):
            raise run.unproven("the checkpoint is whole")
        return f"{path.name} has {path.stat().st_size} bytes and no end"


class OtherNpz(GoodNpz):
    """The .npz checkpoint to resume from is of a wider model."""

    WIDTH = 96

    def proof(self, run: Run) -> str:
        import numpy as np

        with np.load(run.work / "last.npz") as saved:
            return f"the checkpoint has {saved['w1'].shape[1]} hidden units, the model {GoodNpz.WIDTH}"


class GoodTfCheckpoint(Fault):
    """Not a fault: a sound TensorFlow checkpoint of step 40 to resume from."""

    WIDTH = 64
    SAVE = """
import sys, tensorflow as tf, train
model = train.build(*[int(word) for word in sys.argv[2:]])
print(tf.train.Checkpoint(model=model, seen=tf.Variable(40, dtype=tf.int64, trainable=False)).save(sys.argv[1]))
"""

    def prepare(self, run: Run) -> None:
        self.save(run)

    def save(self, run: Run) -> str:
        """Write the checkpoint, tell the ranks of it, and return its prefix."""
        path = run.in_training_python(self.SAVE, str(run.work / "ckpt"), str(self.WIDTH)).splitlines()[-1]
        run.give_all("--resume", path)
        return path

    def proof(self, run: Run) -> str:
        return run.proof_in_log(0, "resumed from")


class TruncatedTfCheckpoint(GoodTfCheckpoint):
    """The data file of the TensorFlow checkpoint to resume from lost its second half."""

    def prepare(self, run: Run) -> None:
        run.cut(Path(self.save(run) + ".data-00000-of-00001"))

    proof = Fault.proof


class MissingTfCheckpoint(GoodTfCheckpoint):
    """The TensorFlow checkpoint to resume from was removed, as by a job that keeps the last three."""

    def prepare(self, run: Run) -> None:
        prefix = Path(self.save(run))
        for path in prefix.parent.glob(f"{prefix.name}.*"):
            path.unlink()
        run.strike(f"{prefix.name}.index and .data were removed")

    def proof(self, run: Run) -> str:
        left = list(run.work.glob("ckpt-1.*"))
        if left:
            raise run.unproven(f"{left[0].name} is there")
        return run.proof_that_it_struck()


class OtherTfCheckpoint(GoodTfCheckpoint):
    """The TensorFlow checkpoint to resume from is of a wider model."""

    WIDTH = 96

    def prepare(self, run: Run) -> None:
        run.strike(f"{Path(self.save(run)).name} is of a model of width 96, the job's has 64")

    proof = Fault.proof


class OtherKerasWeights(Fault):
    """The Keras weights file to start from is of a wider model."""

    SAVE = "import sys, train; train.build(96).save_weights(sys.argv[1])"

    def prepare(self, run: Run) -> None:
        path = str(run.work / "start.weights.h5")
        run.in_training_python(self.SAVE, path)
        run.strike("start.weights.h5 is of a model of width 96, the job's has 64")
        run.give_all("--load-weights", path)


class SavesCheckpoints(Fault):
    """Not a fault: the job writes TensorFlow checkpoints as it goes."""

    def prepare(self, run: Run) -> None:
        run.give_all("--save", str(run.work / "ckpt"))

    def proof(self, run: Run) -> str:
        written = sorted(run.work.glob("ckpt-*.index"))
        if not written:
            raise run.unproven("no checkpoint was written")
        return f"{len(written)} checkpoints were written"


class FullDisk(Fault):
    """The checkpoints go to a disk of 256 kB, which an older one has filled."""

    SIZE = 256 << 10

    def prepare(self, run: Run) -> None:
        disk = run.work / "checkpoints"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", str(disk)], check=True)
        (disk / "older.bin").write_bytes(bytes(self.SIZE))
        run.give_all("--save", str(disk / run.scenario.checkpoint))

    def proof(self, run: Run) -> str:
        if os.statvfs(run.work / "checkpoints").f_bavail:
            raise run.unproven("there is room on the checkpoints' disk")
        return f"of {self.SIZE} bytes on the checkpoints' disk none is free"


class LongSave(Fault):
    """Not a fault: the checkpoint's storage is slow, each save takes many seconds of writing."""

    SECONDS = 10.0
    BLOCK = 2 << 20

    def prepare(self, run: Run) -> None:
        run.give_all("--save", str(run.work / "ckpt"))

    def change_save(self, path: Any) -> Any:
        end = time.monotonic() + self.SECONDS
        with open(f"{path}.staging", "wb") as staging:
            while time.monotonic() < end:
                staging.write(os.urandom(self.BLOCK))
                os.fsync(staging.fileno())
                time.sleep(0.05)
                if staging.tell() > 40 * self.BLOCK:
                    staging.seek(0)
        return path


class SlowSave(Fault):
    """Not a fault: the checkpoint goes to a slow disk; the others wait for rank 0."""

    SECONDS = 14.0
    PIECE = 1 << 20

    def change_save(self, path: str) -> str:
        end = time.monotonic() + self.SECONDS
        with open(f"{path}.optimizer", "wb") as file:
            while time.monotonic() < end:
                self.write_piece(file)
        return path

    def write_piece(self, file: Any) -> None:
        """A megabyte, at about 10 MB/s."""
        file.seek(0)
        file.write(os.urandom(self.PIECE))
        file.flush()
        os.fsync(file.fileno())
        time.sleep(0.1)
