# SPDX-License-Identifier: Apache-2.0
"""How fast data files are checked: TFRecord against TensorFlow's own readers, Parquet against pyarrow's, on one core.

Each reader gets the same file, warm, in the same minute; the best of several turns counts, by processor time, because
other programs share the machine. TensorFlow checks the same CRCs. Then the whole command, by the clock and by processor
time: on a folder of shards against merely reading them, and on a folder of tiny files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest

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
    found = read_unit(DataUnit(str(path), "", path.stat().st_size), ReadRequest())
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


def _plain_read(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass


def plain_read(data: Path) -> None:
    """Every byte of a folder into memory and nothing else, on all cores."""
    cores = len(os.sched_getaffinity(0))
    every = sorted(str(path) for path in data.rglob("*") if path.is_file())
    readers = [multiprocessing.Process(target=_plain_read, args=(every[n::cores],)) for n in range(cores)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def cat(data: Path) -> None:
    with subprocess.Popen(["cat", *sorted(map(str, data.iterdir()))], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.read(1 << 20):
            pass


def check(data: Path, manifest: Path, *, files: int) -> None:
    command = [sys.executable, "-m", "keepstep", "check", "data", str(data), "--manifest", str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"{files:,} " in done.stdout, done.stdout + done.stderr


def spent(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and processor seconds of this process and its children."""

    def used() -> float:
        now = os.times()
        return now.user + now.system + now.children_user + now.children_system

    began, before = time.perf_counter(), used()
    work()
    return time.perf_counter() - began, used() - before


def whole_command(folder: Path, total: int) -> None:
    """The command on a folder of 32 shards, against merely reading it; then once more, when nothing has changed."""
    data, manifest = folder / "shards", folder / "manifest"
    data.mkdir()
    for number in range(32):
        write_records(data / f"{number}.tfrecord", 20_000 + number, total // 32)
    length = sum(path.stat().st_size for path in data.iterdir())
    print(f"\n| {length / 1e6:.0f} MB in 32 shards | seconds | GB/s | processor seconds |\n|---|---|---|---|")
    works: list[tuple[str, Callable[[], None]]] = [
        ("plain read, all cores", lambda: plain_read(data)),
        ("`cat`", lambda: cat(data)),
        ("first check", lambda: check(data, manifest, files=32)),
        ("second check, nothing changed", lambda: check(data, manifest, files=32)),
    ]
    for name, work in works:
        clock, processor = spent(work)
        print(f"| {name} | {clock:.1f} | {length / clock / 1e9:.2f} | {processor:.1f} |", flush=True)
    shutil.rmtree(data)


def many_files(folder: Path, count: int) -> None:
    """The command on a folder of tiny files: what each file costs, not each byte."""
    data, manifest = folder / "tiny", folder / "tiny-manifest"
    for number in range(count):
        if number % 1000 == 0:
            (data / f"{number // 1000}").mkdir(parents=True)
        (data / f"{number // 1000}" / f"{number}.jsonl").write_bytes(b'{"id": %d, "text": "some words"}\n' % number)
    print(f"\n| {count:,} files of 40 bytes | seconds | files/s | processor seconds |\n|---|---|---|---|")
    works: list[tuple[str, Callable[[], None]]] = [
        ("plain read, all cores", lambda: plain_read(data)),
        ("first check", lambda: check(data, manifest, files=count)),
        ("second check, nothing changed", lambda: check(data, manifest, files=count)),
    ]
    for name, work in works:
        clock, processor = spent(work)
        print(f"| {name} | {clock:.1f} | {count / clock:,.0f} | {processor:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--files", type=int, default=50_000, help="tiny files in one folder")
    asked = parser.parse_args()
    total = asked.megabytes * 1_000_000
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(f"# Data files\n\n{sys.version.split()[0]}, {os.cpu_count()} cores, {total / 1e6:.0f} MB per file\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        tfrecord_table(Path(folder), total)
        parquet_table(Path(folder), total)
        whole_command(Path(folder), 4 * total)
        many_files(Path(folder), asked.files)


if __name__ == "__main__":
    main()
