# SPDX-License-Identifier: Apache-2.0
"""Saves through the ledger and is killed before the 1st, 2nd, 3rd... call that changes the disk, in an empty folder:
``killed_saves.py WAY``. Prints for each what lies there then, and what the ledger says of it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keepstep.guard.own_rank import Identity
from keepstep.guard.session import Session
from keepstep.store.ledger.verify import verify

CALLS = ("open", "write", "replace", "unlink", "mkdir", "fsync")
OLD, NEW = b"a" * 3000, b"b" * 3000
FOLDER = Path("job", "ckpt")
SAVED = FOLDER / "last.bin"


def in_place(data: bytes, path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for start in range(0, len(data), 1000):
        os.write(handle, data[start : start + 1000])
    os.close(handle)


def renamed(data: bytes, path: Path) -> None:
    in_place(data, path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)


def save(way: Callable[[bytes, Path], None], data: bytes) -> None:
    session = Session(Identity(rank=0, world=1), {"KEEPSTEP": "on", "KEEPSTEP_DIR": str(Path("guard").resolve())})
    session.ledger.saves("torch", lambda: "torch 2", lambda data, path: path)(way)(data, SAVED)
    session.ledger.close()


def die_before(turn: int) -> None:
    """Kill this process when it makes that call."""
    count = itertools.count(1)

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(count) == turn:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))


def main(way: Callable[[bytes, Path], None]) -> None:
    for turn in itertools.count(1):
        shutil.rmtree("job", ignore_errors=True)
        FOLDER.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            save(way, OLD)
            die_before(turn)
            save(way, NEW)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = SAVED.read_bytes() if SAVED.exists() else b""
        state = verify(SAVED).state
        print(json.dumps({"whole": found in (OLD, NEW), "new": found == NEW, "state": state.name}), flush=True)
        if ended == 0:
            return


if __name__ == "__main__":
    main({"in place": in_place, "renamed": renamed}[sys.argv[1]])
