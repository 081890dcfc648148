# SPDX-License-Identifier: Apache-2.0
"""The files that the ranks read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


class ShortShard(Fault):
    """The rank's data file has fewer rows than the others'."""

    ROWS = 200

    def prepare(self, run: Run) -> None:
        inputs, labels = run.points()
        run.put_points(inputs[: self.ROWS], labels[: self.ROWS])
        run.strike(f"{run.shard.name} has {self.ROWS or 'no'} rows, the others {len(inputs)}")


class EmptyShard(ShortShard):
    """The rank's data file is well formed and has no rows."""

    ROWS = 0


class SameShard(Fault):
    """Every rank's data file is a copy of the first one: all ranks are fed the same records, and nothing fails."""

    def prepare(self, run: Run) -> None:
        first, *others = sorted(run.data.glob("points-*"))
        for path in others:
            shutil.copyfile(first, path)

    def proof(self, run: Run) -> str:
        files = sorted(run.data.glob("points-*"))
        if len({path.read_bytes() for path in files}) != 1:
            raise run.unproven("the files differ")
        return f"all {len(files)} files have the same content"


class OneFile(Fault):
    """One input file for several workers that shard by file."""

    def prepare(self, run: Run) -> None:
        for path in sorted(run.data.glob("points-*"))[1:]:
            path.unlink()
        run.give_all("--files", "1")

    def proof(self, run: Run) -> str:
        files = list(run.data.glob("points-*"))
        if len(files) != 1:
            raise run.unproven(f"there are {len(files)} files")
        return f"there is one file for {run.scenario.ranks} workers"


class Undivided(Fault):
    """Nothing divides the data among the ranks: every one of them reads all files, in the same order."""

    def proof(self, run: Run) -> str:
        if not all("OFF" in args for args in run.args):
            raise run.unproven("auto-sharding is on")
        return "auto-sharding is off, and the script divides nothing"


class RaggedRows(Fault):
    """Not the data's fault: its rows are not a multiple of the batch size, so the last batch is smaller."""

    def proof(self, run: Run) -> str:
        batch, rows = int(run.scenario.args[run.scenario.args.index("--batch") + 1]), len(run.points()[1])
        if rows % batch == 0:
            raise run.unproven(f"{rows} rows are a multiple of {batch}")
        return f"of {rows} rows a file in batches of {batch}, {rows % batch} are left"


class TooFewRows(Fault):
    """The data is read once, and is shorter than the steps that were asked for."""

    def proof(self, run: Run) -> str:
        return f"{run.scenario.ranks} files of {len(run.points()[1])} rows are read once"


class MissingData(Fault):
    """The rank's data file is not there."""

    def prepare(self, run: Run) -> None:
        run.shard.unlink()

    def proof(self, run: Run) -> str:
        if run.shard.exists():
            raise run.unproven(f"{run.shard.name} is there")
        return f"{run.shard.name} is not on disk"


class TruncatedData(Fault):
    """The rank's data file lost its second half, as after an interrupted copy."""

    def prepare(self, run: Run) -> None:
        # of a TFRecord file inside a record's data: a cut in its 12 byte header reads as a normal end of file
        run.cut(run.shard, 40)


class FlippedData(Fault):
    """One bit of the rank's data file flipped on disk."""

    def prepare(self, run: Run) -> None:
        found = bytearray(run.shard.read_bytes())
        found[len(found) // 2] ^= 0x10
        run.shard.write_bytes(bytes(found))
        run.strike(f"one bit of {run.shard.name} flipped at byte {len(found) // 2}")


class OtherFeatureLength(Fault):
    """The rank's data file holds points of another width, as of an older version of the data set."""

    def prepare(self, run: Run) -> None:
        inputs, labels = run.points()
        run.put_points(inputs[:, :24], labels)
        run.strike(f"{run.shard.name} has points of width 24, the others {inputs.shape[1]}")


class LabelOutOfRange(Fault):
    """One sample of the rank's file carries a class that the model does not have."""

    ROW = 200

    def prepare(self, run: Run) -> None:
        inputs, labels = run.points()
        labels[self.ROW] = 10
        run.put_points(inputs, labels)
        run.strike(f"row {self.ROW} of {run.shard.name} has the label 10 of classes 0 to 9")


class HugeValues(Fault):
    """Some rows of the rank's data file were never normalised: the loss and then the weights overflow."""

    FIRST, LAST = 320, 400
    TIMES = 1e30
    THEN = "1e30 times too large"

    def prepare(self, run: Run) -> None:
        inputs, labels = run.points()
        inputs[self.FIRST : self.LAST] *= self.TIMES
        run.put_points(inputs, labels)
        run.strike(f"rows {self.FIRST} to {self.LAST} of {run.shard.name} are {self.THEN}")


class NanData(HugeValues):
    """Some rows of the rank's data file are not numbers."""

    TIMES = float("nan")
    THEN = "nan"
