# SPDX-License-Identifier: Apache-2.0
"""How fast data files are checked: TFRecord against TensorFlow's own readers, Parquet against pyarrow's, on one core.

Each reader gets the same file, warm, in the same minute; the best of several turns counts, by processor time, because
other programs share the machine. TensorFlow checks the same CRCs. Then the whole command on a folder, by the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import Asked, Unit

SIZES = (50, 200, 1_000, 10_000, 100_000)
TURNS = 3


def write_records(path: Path, size: int, total: int) -> int:
    """A file of records of one size, by TensorFlow's writer. Returns how many."""
    import tensorflow

    noise = os.urandom(size + 4096)
    count = max(10, total // (size + 16))
    with tensorflow.io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            writer.write(noise[number % 4096 : number % 4096 + size])
    return count


def keepstep_reads(path: Path) -> int:
    found = read_unit(Unit(str(path), "", path.stat().st_size), Asked())
    assert not len(found.bad) and found.records is not None, found
    return found.records


def iterator_reads(path: Path) -> int:
    import tensorflow

    return sum(1 for _ in tensorflow.compat.v1.io.tf_record_iterator(str(path)))


def dataset_reads(path: Path) -> int:
    import tensorflow

    return sum(int(batch.shape[0]) for batch in tensorflow.data.TFRecordDataset(str(path)).batch(1024))


def arrow_reads(path: Path) -> int:
    import pyarrow.parquet as parquet

    opened = parquet.ParquetFile(path, page_checksum_verification=True)
    return sum(batch.num_rows for batch in opened.iter_batches(batch_size=65536, use_threads=False))


def best(read: Callable[[Path], int], path: Path, expected: int) -> tuple[float, float]:
    """Processor seconds and wall seconds of the best turn."""
    found = []
    for _ in range(TURNS):
        began, spent = time.perf_counter(), time.process_time()
        assert read(path) == expected
        found.append((time.process_time() - spent, time.perf_counter() - began))
    return min(found)


def tfrecord_table(folder: Path, total: int) -> None:
    print(
        "| TFRecord, bytes per record | keepstep GB/s | us per record | tf_record_iterator | tf.data, batched | ratio |"
    )
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        path = folder / f"{size}.tfrecord"
        count = write_records(path, size, min(total, size * 400_000))
        length = path.stat().st_size
        own, one, other = (best(read, path, count)[0] for read in (keepstep_reads, iterator_reads, dataset_reads))
        print(
            f"| {size:,} | {length / own / 1e9:.2f} | {own / count * 1e6:.2f} | {length / one / 1e9:.2f} "
            f"| {length / other / 1e9:.2f} | {min(one, other) / own:.1f}x |",
            flush=True,
        )
        path.unlink()


def parquet_table(folder: Path, total: int) -> None:
    import numpy
    import pyarrow
    import pyarrow.parquet as parquet

    rows = total // 40
    rng = numpy.random.default_rng(0)
    columns: dict[str, Any] = {f"x{n}": rng.random(rows).astype("f4") for n in range(8)}
    path = folder / "a.parquet"
    parquet.write_table(pyarrow.table({**columns, "label": rng.integers(0, 10, rows)}), path, write_page_checksum=True)
    own, other = best(keepstep_reads, path, rows), best(arrow_reads, path, rows)
    length = path.stat().st_size
    print("\n| Parquet | keepstep MB/s | pyarrow MB/s | ratio |\n|---|---|---|---|")
    own_rate, other_rate = length / own[0] / 1e6, length / other[0] / 1e6
    print(f"| {length / 1e6:.0f} MB | {own_rate:.0f} | {other_rate:.0f} | {own_rate / other_rate:.2f}x |")


def whole_command(folder: Path, total: int) -> None:
    """The command on a folder of 32 shards, from the first time to a second one that finds nothing changed."""
    data = folder / "shards"
    data.mkdir()
    for number in range(32):
        write_records(data / f"{number}.tfrecord", 20_000 + number, total // 32)
    length = sum(path.stat().st_size for path in data.iterdir())
    command = [sys.executable, "-m", "keepstep", "check", "data", str(data), "--manifest", str(folder / "manifest")]
    print("\n| the whole command, 32 shards | seconds | GB/s |\n|---|---|---|")
    for name in ("first check", "second check, nothing changed"):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        spent = time.perf_counter() - began
        assert done.returncode == 0, done.stdout
        print(f"| {name} ({length / 1e6:.0f} MB) | {spent:.1f} | {length / spent / 1e9:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    total = parser.parse_args().megabytes * 1_000_000
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(f"# Data files\n\n{sys.version.split()[0]}, {os.cpu_count()} cores, {total / 1e6:.0f} MB per file\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        tfrecord_table(Path(folder), total)
        parquet_table(Path(folder), total)
        whole_command(Path(folder), total)


if __name__ == "__main__":
    main()
