# SPDX-License-Identifier: Apache-2.0
"""What a rank printed and its file could not take, on its way to the terminal. The rank waits for neither."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

MOST_BYTES = 64 << 20
"""In memory, for all ranks together: four seconds of what a terminal takes."""
LEAST_BYTES = 256 << 10
"""For each rank."""
OF_A_PIECE = 200
"""Bytes that a piece costs beside its content."""


@dataclass(frozen=True, slots=True)
class Piece:
    place: int
    """How long the file was: what it holds before this was printed earlier."""
    is_err: bool
    data: bytes
    lost: int
    """Bytes that were given up just before this one."""


class Unrecorded:
    """Bounded. Where the terminal takes too little, the oldest pieces are given up and counted."""

    def __init__(self) -> None:
        self.most = MOST_BYTES
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._lost = 0
        self._lock = threading.Lock()

    def add(self, place: int, is_err: bool, data: bytes) -> None:
        """Never waits."""
        end = data[-self.most :] if self.most else b""
        with self._lock:
            self._pieces.append(Piece(place, is_err, end, 0))
            self._size += len(end) + OF_A_PIECE
            while len(self._pieces) > 1 and self._size > self.most:
                self._lost += len(self._take().data)
            self._lost += len(data) - len(end)

    def first(self) -> Piece | None:
        """The oldest piece, which is taken out by that."""
        with self._lock:
            if not self._pieces:
                return None
            piece = self._take()
            lost, self._lost = self._lost, 0
            return Piece(piece.place, piece.is_err, piece.data, lost)

    def _take(self) -> Piece:
        piece = self._pieces.popleft()
        self._size -= len(piece.data) + OF_A_PIECE
        return piece
