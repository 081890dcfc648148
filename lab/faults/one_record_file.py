"""One input file for two workers that shard by file."""

from lab.faults import tf_records
from lab.launch import Run


def prepare(run: Run) -> None:
    files = tf_records.write(run.work, 1)
    for args in run.args:
        args += ["--shard", "FILE", "--records", *map(str, files)]
