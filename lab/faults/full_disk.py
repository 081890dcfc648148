"""The checkpoints go to a disk of 256 kB, which an older one has filled."""

import subprocess

from lab.launch import Run


def prepare(run: Run) -> None:
    disk = run.work / "checkpoints"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    run.stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
    (disk / "older.bin").write_bytes(bytes(256 << 10))
    for args in run.args:
        args += ["--save", str(disk / run.scenario.checkpoint)]
