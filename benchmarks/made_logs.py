# SPDX-License-Identifier: Apache-2.0
"""Large logs of the usual kinds, made anew from a fixed seed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

_LINES = 100_000


def ordinary(n: int, dice: random.Random) -> str:
    """A line as healthy trainings print them by the million."""
    kind = dice.randrange(5)
    if kind == 0:
        return (
            f"2026-11-15 01:{n // 60 % 60:02d}:{n % 60:02d}.123456: I tensorflow/core/common_runtime/"
            f"executor.cc:{n % 900}] step {n} loss={dice.random():.4f} throughput={dice.random() * 1000:.1f} samples/s"
        )
    if kind == 1:
        return f"[INFO] epoch {n // 1000} iter {n} lr 3.0e-4 loss {dice.random():.5f} grad_norm {dice.random():.3f}"
    if kind == 2:
        a, b = n % 8, (n + 1) % 8
        return (
            f"node-{n % 16}:41{n % 90:02d}:58{n % 90:02d} [{a}] NCCL INFO Channel {n % 24:02d}/0 : {a}[{a}] -> "
            f"{b}[{b}] via P2P/IPC"
        )
    if kind == 3:
        return f"{n}/100000 [==>...........................] - ETA: {n % 60}s - loss: {dice.random():.4f}"
    return f"I1115 01:{n // 60 % 60:02d}:{n % 60:02d}.55 31337 trainer.py:214] saved summary {n} to /data/run/summaries"


_TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600100 milliseconds before timing out."
)

_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/app/train.py", line 311, in <module>',
    "    train()",
    '  File "/srv/app/train.py", line 211, in train',
    "    for batch in loader:",
    '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 521, in __next__',
    "    data = self._next_data()",
    "KeyError: 'label'",
)


def _block(*, prefix: bool, timeout_every: int, traceback_every: int) -> bytes:
    dice = random.Random(7)
    lines: list[str] = []
    for n in range(_LINES):
        label = f"[rank{n % 64}]: " if prefix else ""
        lines.append(label + ordinary(n, dice))
        if timeout_every and n % timeout_every == 7:
            lines.append(label + _TIMEOUT)
        if traceback_every and n % traceback_every == 11:
            lines.extend(label + line for line in _TRACEBACK)
    return ("\n".join(lines) + "\n").encode()


def make(folder: Path, megabytes: int) -> dict[str, Path]:
    """One file of each kind, about ``megabytes`` large."""
    kinds = {
        "sparse hits (1 line in 20,000)": _block(prefix=False, timeout_every=20_000, traceback_every=0),
        "a rank prefix on every line": _block(prefix=True, timeout_every=20_000, traceback_every=0),
        "a traceback every 40 lines": _block(prefix=False, timeout_every=0, traceback_every=40),
        "prefixes and tracebacks": _block(prefix=True, timeout_every=0, traceback_every=40),
    }
    made: dict[str, Path] = {}
    for number, (kind, block) in enumerate(kinds.items()):
        made[kind] = folder / f"log{number}.log"
        with made[kind].open("wb") as out:
            for _ in range(max(1, megabytes * 1_000_000 // len(block))):
                out.write(block)
    packed = folder / "sparse.log.gz"
    with gzip.open(packed, "wb", compresslevel=6) as out, (folder / "log0.log").open("rb") as plain:
        while chunk := plain.read(1 << 20):
            out.write(chunk)
            if plain.tell() > megabytes * 250_000:
                break
    made["sparse hits, .gz"] = packed
    return made


def make_many(folder: Path, files: int = 1000, size: int = 1_000_000) -> Path:
    """A folder of many ranks' logs."""
    block = _block(prefix=False, timeout_every=20_000, traceback_every=0)
    where = folder / "many"
    where.mkdir()
    for n in range(files):
        start = (n * 7919) % max(1, len(block) - size)
        (where / f"rank{n}.log").write_bytes(block[start : start + size])
    return where
