# SPDX-License-Identifier: Apache-2.0
"""The messages in the bytes of a connection: one line each, of bounded length."""

from __future__ import annotations

import contextlib

from keepstep.supervise.nodes.connection.interface import CLOSED_THERE
from keepstep.supervise.nodes.messages import LARGEST, BadMessage, Hello, Message, Refused, Welcome, decode

MOST_STRAY = 64 << 10
"""Bytes of other text before the first message on a pipe, such as a banner that a shell's start-up file prints."""


class Lines:
    """Bytes as they come, and the messages in them."""

    def __init__(self, *, may_stray: bool = False) -> None:
        self._rest = bytearray()
        self._looked = 0
        self._may_stray = may_stray
        self._stray = b""
        self._skipped = 0
        self.wrong: str | None = None
        """Why nothing more can be read."""

    def feed(self, data: bytes) -> list[tuple[Message, int]]:
        """The messages that are complete now, with their sizes."""
        self._rest += data
        found = []
        while self.wrong is None:
            end = self._rest.find(b"\n", self._looked)
            if end < 0:
                self._looked = len(self._rest)
                if self._looked > LARGEST:
                    self.wrong = f"the other side sent a line of more than {LARGEST >> 20} MiB"
                break
            line = bytes(self._rest[: end + 1])
            del self._rest[: end + 1]
            self._looked = 0
            message = self._opening(line) if self._may_stray else self._message(line)
            if message is not None:
                found.append((message, len(line)))
        if self._may_stray and self._skipped + len(self._rest) > MOST_STRAY:
            self._keep(bytes(self._rest[:400]))
            self.wrong = f"no agent answered within {MOST_STRAY >> 10} KiB of other text{self._said()}"
        return found

    def ended(self) -> str:
        """Why there is no more, after the last byte."""
        if self._may_stray:
            self._keep(bytes(self._rest))
            return f"the other side ended before an agent answered{self._said()}"
        return f"{CLOSED_THERE} within a message" if self._rest else CLOSED_THERE

    def _message(self, line: bytes) -> Message | None:
        try:
            return decode(line)
        except BadMessage as error:
            self.wrong = str(error)
            return None

    def _opening(self, line: bytes) -> Message | None:
        start = line.find(b'{"kind":')  # text without a line end may come right before it
        with contextlib.suppress(BadMessage):
            message = decode(line[start:]) if start >= 0 else None
            if isinstance(message, Hello | Welcome | Refused):
                self._may_stray = False
                return message
        self._skipped += len(line)
        self._keep(line)
        return None

    def _keep(self, text: bytes) -> None:
        self._stray = (self._stray + text)[-400:]

    def _said(self) -> str:
        words = " ".join(self._stray.decode("utf-8", "replace").split())
        return f"; it printed: {words[-200:].strip()}" if words else ""
