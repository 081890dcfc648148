# SPDX-License-Identifier: Apache-2.0
"""The health of parameter servers, seen from the coordinator: how fast each answers, how old the last checkpoint is.

gRPC answers a ping of HTTP/2 by itself, whatever the server computes. A thread of its own asks and waits; TensorFlow's
own question (`check_alive`) would hold the interpreter's lock until the answer comes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keepstep.base.wording import duration

if TYPE_CHECKING:
    from keepstep.guard.protocols import Adapts

PART = "answers of parameter servers"
PERIOD_S, PATIENCE_S = 10.0, 3.0
NOTED_S = 60.0
"""An answer is noted when it is the first, or the first after none, and otherwise this often."""
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_PING, _PONG = (b"\x00\x00\x08\x06" + flag + b"\x00\x00\x00\x00keepstep" for flag in (b"\x00", b"\x01"))
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS + _PING
MOST_BYTES = 1 << 16


def answer_s(address: str) -> float | None:
    """How long a server of gRPC takes to answer; None if it does not."""
    host, _, port = address.rpartition(":")
    heard = b""
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S) as link,
    ):
        began = time.monotonic()
        link.sendall(_PREFACE)
        while len(heard) < MOST_BYTES and (left := began + PATIENCE_S - time.monotonic()) > 0:
            link.settimeout(left)
            more = link.recv(4096)
            heard += more
            if _PONG in heard:
                return time.monotonic() - began
            if not more:
                break
    return None


class ParameterServers:
    """Those of one training. ``addresses``: in the order of their numbers."""

    def __init__(self, session: Adapts, addresses: Sequence[str]) -> None:
        self._session = session
        self._addresses = addresses
        self._answered: dict[int, float] = {}
        """When each answered last."""
        self._noted: dict[int, float] = {}
        self._silent: set[int] = set()

    def watch(self) -> None:
        threading.Thread(target=self._run, name="keepstep-servers", daemon=True).start()

    def _run(self) -> None:
        while not self._session.is_off(PART):
            with self._session.part(PART):
                self.look()
            time.sleep(PERIOD_S)

    def look(self) -> None:
        """Ask each of them."""
        for number, address in enumerate(self._addresses):
            took_s, now = answer_s(address), time.monotonic()
            if took_s is not None:
                self._answered[number] = now
                if number in self._silent or now - self._noted.get(number, -NOTED_S) >= NOTED_S:
                    self._note(number, took_s, f"parameter server {number} answered in {took_s * 1000:.1f} ms")
                self._silent.discard(number)
            elif number in self._answered and number not in self._silent:
                self._silent.add(number)
                since = duration(now - self._answered[number])
                said = f"parameter server {number} at {address} has not answered for {since}; {self._cost()}"
                self._note(number, None, said)
                self._session.say(said)

    def _note(self, number: int, took_s: float | None, words: str) -> None:
        self._noted[number] = time.monotonic()
        last = self._session.ledger.last_saved
        age_s = None if last is None else round(time.time() - last[1], 1)
        self._session.note(
            "ParameterServerAsked", {"number": number, "answer_s": took_s, "checkpoint_age_s": age_s}, words
        )

    def _cost(self) -> str:
        last = self._session.ledger.last_saved
        if last is None:
            return "if it is lost, all is lost: no checkpoint was recorded"
        ago = duration(time.time() - last[1])
        return f"if it is lost, so is what was trained since step {last[0]}, saved {ago} ago"
