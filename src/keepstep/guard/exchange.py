# SPDX-License-Identifier: Apache-2.0
"""Small messages between the guards of all ranks, out of band: never on a connection that the training uses.

An adapter brings its framework's key-value service. Under a supervisor, its folder is used, which is new at every
attempt. No call waits: what is not there yet is None, and the caller asks again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from keepstep.base.safe_files import make_private, write_whole

if TYPE_CHECKING:
    from keepstep.guard.own_rank import Identity

LONGEST = 256 << 10


class Exchange(Protocol):
    """A key is written once, by one rank. Both calls may raise anything: the caller then goes on without an answer."""

    name: str

    def put(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> str | None: ...


def get_all(exchange: Exchange, keys: Sequence[str]) -> list[str | None]:
    """What is under several keys: at once, where the service can do that (``get_all``)."""
    at_once = getattr(exchange, "get_all", None)
    return list(at_once(keys)) if at_once is not None else [exchange.get(key) for key in keys]


def key_of(who: Identity, topic: str, rank: int | None) -> str:
    """Where the newest message of a rank on a topic is."""
    return f"keepstep/{who.attempt}/{topic}/r{rank}"


class SharedFolder:
    """A folder that all ranks can see and that no earlier run has written to."""

    name = "the shared folder"

    def __init__(self, path: Path) -> None:
        self._path = path
        make_private(path)

    def put(self, key: str, value: str) -> None:
        path = self._path / key.replace("/", "+")
        write_whole(path, value.encode(errors="surrogateescape"))

    def get(self, key: str) -> str | None:
        with (
            contextlib.suppress(FileNotFoundError),
            (self._path / key.replace("/", "+")).open(encoding="utf-8", errors="surrogateescape") as stream,
        ):
            return stream.read(LONGEST)
        return None
