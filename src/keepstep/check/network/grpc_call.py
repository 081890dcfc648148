# SPDX-License-Identifier: Apache-2.0
"""A real gRPC call between two hosts, as TensorFlow's workers make it: only this shows what breaks HTTP/2 on the way.

It needs a TensorFlow job and grpcio (which comes with TensorFlow); elsewhere the coverage says that it was not tried.
No proxy is used, because a proxy is not a host of the cluster; the config part reports one that is set. The message is
larger than any packet, and proves that the caller knows the token.
"""

from __future__ import annotations

import contextlib
import hmac
import importlib
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

METHOD = "/keepstep.Check/Echo"
SIZE = 64 << 10
LIMIT_S = 4.0
LARGEST = 1 << 20


def available() -> bool:
    """Whether grpcio is installed; it is imported only when used."""
    return importlib.util.find_spec("grpc") is not None


def proof(token: bytes, who: str) -> bytes:
    return hmac.digest(token, b"grpc to " + who.encode("utf-8", "replace"), "sha256")


class GrpcAnswers:
    """A gRPC server with one method, which returns what it gets to callers that know the token."""

    def __init__(self, token: bytes, who: str) -> None:
        grpc = _grpc()
        expected = proof(token, who)

        def echo(request: bytes, context: Any) -> bytes:
            if not hmac.compare_digest(request[:32], expected):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not part of this check")
            return request

        handler = grpc.unary_unary_rpc_method_handler(echo)
        service, method = METHOD.strip("/").split("/")
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(
            self._pool, options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", LARGEST))
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))

    def open(self, port: int) -> int:
        """Listen and return the port. Raises ``OSError``."""
        try:
            number = int(
                self._server.add_insecure_port(f"[::]:{port}") or self._server.add_insecure_port(f"0.0.0.0:{port}")
            )
        except RuntimeError as error:
            raise OSError(str(error)) from error
        if not number:
            raise OSError("gRPC cannot listen")
        self._server.start()
        return number

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._server.stop(0).wait(2)
        self._pool.shutdown(wait=False)


def exchange(address: str, port: int, token: bytes, who: str) -> str | None:
    """Make one call. Returns None if the answer was right, else gRPC's message."""
    grpc = _grpc()
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    message = proof(token, who) + os.urandom(SIZE)
    with grpc.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            answer = channel.unary_unary(METHOD)(message, timeout=LIMIT_S)
        except grpc.RpcError as error:
            code = getattr(error, "code", lambda: None)()
            details = getattr(error, "details", lambda: "")() or ""
            return f"{code.name if code else 'failed'}: {details}"[:300]
    return None if answer == message else "the answer differs from what was sent"


def _grpc() -> Any:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return importlib.import_module("grpc")
