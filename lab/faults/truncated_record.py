"""The TFRecord file of worker 1 lost its end, as after an interrupted copy."""

from lab.faults import tf_records
from lab.launch import Run


def prepare(run: Run) -> None:
    tf_records.prepare(run)
    path = run.work / "points-01.tfrecord"
    whole = path.read_bytes()
    # inside a record's data: a cut in its 12 byte header reads as a normal end of file
    path.write_bytes(whole[: len(whole) // 2 + 40])
