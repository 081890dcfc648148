"""One bit of the TFRecord file of worker 1 flipped on disk."""

from lab.faults import tf_records
from lab.launch import Run


def prepare(run: Run) -> None:
    tf_records.prepare(run)
    path = run.work / "points-01.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(bytes(data))
