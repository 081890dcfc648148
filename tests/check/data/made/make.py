# SPDX-License-Identifier: Apache-2.0
"""Writes the small datasets beside this file with their own writers, whose packages pin other versions than ours.

In an environment of its own, with one of the two packages: ``python make.py mds`` or ``python make.py litdata``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent


def mds() -> None:
    import numpy
    from streaming import MDSWriter

    columns = {"text": "str", "label": "int", "x": "ndarray:float32:4", "more": "json"}
    for name, settings in {"mds": {"hashes": ["sha1"]}, "mds_plain": {}, "mds_zstd": {"compression": "zstd"}}.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        with MDSWriter(out=str(folder), columns=columns, size_limit=600, **settings) as writer:
            for number in range(24):
                x = numpy.arange(4, dtype=numpy.float32) + number
                writer.write({"text": f"sample {number}", "label": number % 3, "x": x, "more": {"n": number}})
        for unpacked in folder.glob("*.mds") if "compression" in settings else ():
            unpacked.unlink()


def as_sample(number: int) -> dict:
    import numpy

    return {"text": f"sample {number}", "label": number % 3, "x": numpy.arange(4) + number}


def litdata() -> None:
    from litdata import optimize

    for name, settings in {"litdata": {}, "litdata_zstd": {"compression": "zstd"}}.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        optimize(fn=as_sample, inputs=list(range(24)), output_dir=str(folder), chunk_size=8, num_workers=1, **settings)


if __name__ == "__main__":
    {"mds": mds, "litdata": litdata}[sys.argv[1]]()
