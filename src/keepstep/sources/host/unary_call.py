# SPDX-License-Identifier: Apache-2.0
"""One unary gRPC call over plain HTTP/2 to a server on this host, as the protocol's documents describe it.

Enough for a question whose answer is small: neither compression, nor another stream, nor more than the first window.
"""

from __future__ import annotations

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY = 0, 1, 3, 4, 6, 7
ACK, END_STREAM, END_HEADERS, PADDED = 1, 1, 4, 8
LARGEST = 60_000
"""Less than the first window: nobody waits for a larger one."""


def unary_call(port: int, method: str, message: bytes, limit_s: float = 2.0) -> bytes:
    """``method``: ``/package.Service/Method``. Raises ``OSError`` or ``ValueError`` where there is no answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=limit_s) as link:
        headers = b"\x83\x86" + _literal(b"\x04", method) + _literal(b"\x01", f"localhost:{port}")
        headers += _literal(b"\x0f\x10", "application/grpc") + b"\x00" + _text("te") + _text("trailers")
        question = struct.pack(">BI", 0, len(message)) + message
        link.sendall(
            PREFACE
            + _frame(SETTINGS, 0, 0, b"")
            + _frame(HEADERS, END_HEADERS, 1, headers)
            + _frame(DATA, END_STREAM, 1, question)
        )
        return _message(_answer(link))


def _answer(link: socket.socket) -> bytes:
    """What the server sends on our stream until its end."""
    found = b""
    with link.makefile("rb") as stream:
        while True:
            high, low, kind, flags, number = struct.unpack(">BHBBI", _exactly(stream.read(9), 9))
            size = high << 16 | low
            if size + len(found) > LARGEST:
                raise ValueError("the answer is too large")
            body = _exactly(stream.read(size), size)
            if kind == SETTINGS and not flags & ACK:
                link.sendall(_frame(SETTINGS, ACK, 0, b""))
            elif kind == PING and not flags & ACK:
                link.sendall(_frame(PING, ACK, 0, body))
            elif kind in (RESET, GO_AWAY):
                raise ValueError("the server ended the call")
            elif kind == DATA and number == 1:
                found += body[1 : size - body[0]] if flags & PADDED else body
            if kind in (DATA, HEADERS) and number == 1 and flags & END_STREAM:
                return found


def _message(answer: bytes) -> bytes:
    if len(answer) < 5 or answer[0] != 0 or struct.unpack(">I", answer[1:5])[0] != len(answer) - 5:
        raise ValueError("no message came")
    return answer[5:]


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("the server hung up")
    return data


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">BHBBI", len(body) >> 16, len(body) & 0xFFFF, kind, flags, stream) + body


def _literal(name: bytes, value: str) -> bytes:
    """A header whose name is in the table that every HTTP/2 server knows."""
    return name + _text(value)


def _text(value: str) -> bytes:
    data = value.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data
