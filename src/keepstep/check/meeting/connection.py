# SPDX-License-Identifier: Apache-2.0
"""How two processes of one check talk: each proves that it knows the token, then they exchange framed JSON.

The one who was called sends a fixed greeting and a random number; the caller answers with a random number and
an HMAC of both under the token; the called one checks it and answers with one of its own. Neither reads
anything of variable length before that. Every later message carries an HMAC over its place in the sequence, so nothing
can be inserted. Messages are not encrypted: they hold what a report holds, and no secrets.

Agents of a run prove their secret by TLS (`keepstep.supervise.nodes.connection`). The check cannot: it must run where
nothing but keepstep is installed (TLS with a key of our own needs the cryptography package), and it measures the plain
socket once both sides are known.

The exchange must survive the very faults it looks for. Where full-size packets get lost, a large message would hang,
so it is sent in small pieces, each acknowledged before the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from keepstep.base import foreign_json
from keepstep.sources.host.interfaces import unacknowledged
from keepstep.sources.host.visitors import Visitors

GREETING = b"keepstep.check/1"
NONCE = 32
LARGEST = 32 << 20
"""Bytes of one message, unpacked."""
PIECE = 900
"""Fits into the smallest packets in use, with all headers."""
HANDSHAKE_S = 4.0
MOST_UNPROVEN = 256
"""Connections that have not proved themselves yet, each with a thread."""
REST_S = 0.1
SEND_S = 30.0


class UnprovenPeer(ConnectionError):
    """The program that answered is not part of this check: another protocol, or no knowledge of the token."""


class BadFrame(ConnectionError):
    """The other side sent an invalid message."""


class ProvenConnection:
    """One connection whose other end has proved that it belongs to this check."""

    def __init__(self, raw: socket.socket, key: bytes, *, called: bool) -> None:
        self.socket = raw
        self._key = key
        self._sent = self._got = 0
        self._mine, self._theirs = (b"<", b">") if called else (b">", b"<")
        self._buffer = bytearray()

    def send(self, message: dict[str, Any], within: float = SEND_S) -> None:
        """Send one message. Raises ``OSError`` (also for a time-out)."""
        body = zlib.compress(json.dumps(message, allow_nan=False, separators=(",", ":")).encode(), 1)
        frame = struct.pack(">I", len(body)) + self._mac(self._mine, self._sent, body) + body
        self._sent += 1
        deadline = time.monotonic() + within
        for start in range(0, len(frame), PIECE):
            self.socket.settimeout(max(0.05, deadline - time.monotonic()))
            self.socket.sendall(frame[start : start + PIECE])
            while len(frame) > PIECE and unacknowledged(self.socket):
                if time.monotonic() > deadline:
                    raise TimeoutError("the other side does not acknowledge")
                time.sleep(0.0001)

    def receive(self, within: float) -> dict[str, Any]:
        """The next message. Raises ``OSError``: ``TimeoutError``, ``ConnectionError``, :class:`BadFrame`."""
        deadline = time.monotonic() + within
        while (message := self.waiting()) is None:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            self.read_some()
        return message

    def read_some(self) -> None:
        """Take in what has come. Raises ``ConnectionError`` when the other side is gone."""
        if hasattr(socket, "TCP_QUICKACK"):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError("the other side closed the connection")
        self._buffer += data

    def waiting(self) -> dict[str, Any] | None:
        """A message that has come in full, if there is one."""
        head = 4 + hashlib.sha256().digest_size
        if len(self._buffer) < head:
            return None
        (size,) = struct.unpack(">I", self._buffer[:4])
        if size > LARGEST:
            raise BadFrame(f"the other side announced a message of {size} bytes")
        if len(self._buffer) < head + size:
            return None
        body = bytes(self._buffer[head : head + size])
        if not hmac.compare_digest(bytes(self._buffer[4:head]), self._mac(self._theirs, self._got, body)):
            raise BadFrame("a message does not belong to this conversation")
        self._got += 1
        del self._buffer[: head + size]
        return _unpacked(body)

    def close(self) -> None:
        self.socket.close()

    def _mac(self, direction: bytes, number: int, body: bytes) -> bytes:
        return hmac.digest(self._key, direction + struct.pack(">Q", number) + body, "sha256")


def _unpacked(body: bytes) -> dict[str, Any]:
    try:
        unpack = zlib.decompressobj()
        text = unpack.decompress(body, LARGEST)
        if unpack.unconsumed_tail:
            raise BadFrame("a message is too large")
        message = foreign_json.loads(text)
    except (zlib.error, ValueError) as error:
        raise BadFrame(f"a message cannot be read: {error}") from error
    if not isinstance(message, dict):
        raise BadFrame("a message is not a JSON object")
    return message


def answer(raw: socket.socket, token: bytes, within: float = HANDSHAKE_S) -> ProvenConnection:
    """The side that was called. Raises :class:`UnprovenPeer`."""
    deadline = time.monotonic() + within
    _prepare(raw)
    mine = secrets.token_bytes(NONCE)
    raw.settimeout(within)
    raw.sendall(GREETING + mine)
    told = _exactly(raw, NONCE + 32, deadline)
    theirs, proof = told[:NONCE], told[NONCE:]
    if not hmac.compare_digest(proof, hmac.digest(token, b"caller" + mine + theirs, "sha256")):
        raise UnprovenPeer("the caller does not know the token")
    raw.sendall(hmac.digest(token, b"called" + theirs + mine, "sha256"))
    return ProvenConnection(raw, hmac.digest(token, b"key" + mine + theirs, "sha256"), called=True)


def call(raw: socket.socket, token: bytes, within: float = HANDSHAKE_S) -> ProvenConnection:
    """The calling side, on an open connection. Raises :class:`UnprovenPeer`, or ``OSError`` if it breaks."""
    deadline = time.monotonic() + within
    _prepare(raw)
    told = _exactly(raw, len(GREETING) + NONCE, deadline)
    if not told.startswith(GREETING):
        raise UnprovenPeer("another program answered, not keepstep")
    theirs, mine = told[len(GREETING) :], secrets.token_bytes(NONCE)
    raw.sendall(mine + hmac.digest(token, b"caller" + theirs + mine, "sha256"))
    try:
        proof = _exactly(raw, 32, deadline)
    except ConnectionError as error:
        if error.errno is not None:
            raise  # the connection was cut
        raise UnprovenPeer("the check that answered has another token") from error
    if not hmac.compare_digest(proof, hmac.digest(token, b"called" + mine + theirs, "sha256")):
        raise UnprovenPeer("the check that answered does not know the token")
    return ProvenConnection(raw, hmac.digest(token, b"key" + theirs + mine, "sha256"), called=False)


class ProvenListener:
    """Takes connections on any number of sockets. Each is proved and served in a thread of its own."""

    def __init__(
        self,
        token: bytes,
        serve: Callable[[ProvenConnection, str], bool],
        most: int,
        most_unproven: int = MOST_UNPROVEN,
    ) -> None:
        """``serve`` gets the caller and its address, and says whether the connection stays open after that.

        ``most``: so many that proved themselves are served at once; one more is closed.
        """
        self._token, self._serve, self._most = token, serve, most
        self._listening: list[socket.socket] = []
        self._unproven: Visitors[socket.socket] = Visitors(most_unproven)
        self._served: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def add(self, listening: socket.socket) -> None:
        self._listening.append(listening)
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def close(self) -> None:
        """Close every socket, and every connection that is being served."""
        with self._lock:
            self._closed = True
            sockets = [*self._listening, *self._unproven, *self._served]
        for each in sockets:
            _hang_up(each)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                raw, address = listening.accept()
            except ConnectionError:
                continue  # it has gone already
            except OSError:
                with self._lock:
                    if self._closed:
                        return
                    dropped = self._unproven.leave_first()  # no file descriptor or memory is left
                _hang_up(dropped)
                time.sleep(REST_S)
                continue
            with self._lock:
                dropped = raw if self._closed else self._unproven.come(raw, str(address[0]))
            _hang_up(dropped)
            try:
                threading.Thread(target=self._talk, args=(raw, str(address[0])), daemon=True).start()
            except RuntimeError:  # the machine allows no more threads
                with self._lock:
                    self._unproven.gone(raw)
                _hang_up(raw)

    def _talk(self, raw: socket.socket, address: str) -> None:
        stays = False
        try:
            proven = answer(raw, self._token)
            with self._lock:
                self._unproven.gone(raw)
                if self._closed or len(self._served) >= self._most:
                    return
                self._served.add(raw)
            stays = self._serve(proven, address)
        except (OSError, ValueError, TypeError, KeyError):
            pass  # the caller notices and reports it
        finally:
            with self._lock:
                self._unproven.gone(raw)
                self._served.discard(raw)
            if not stays:
                raw.close()


def _hang_up(raw: socket.socket | None) -> None:
    """Close a connection that another thread may wait for."""
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)
        raw.close()


def _prepare(raw: socket.socket) -> None:
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _exactly(raw: socket.socket, size: int, deadline: float) -> bytes:
    found = b""
    while len(found) < size:
        raw.settimeout(max(0.001, deadline - time.monotonic()))
        data = raw.recv(size - len(found))
        if not data:
            raise ConnectionResetError("the other side closed the connection")
        found += data
        if not found.startswith(GREETING[: len(found)]) and size == len(GREETING) + NONCE:
            raise UnprovenPeer("another program answered, not keepstep")
    return found
