# SPDX-License-Identifier: Apache-2.0
"""A real gRPC call between two hosts, as TensorFlow's workers make them: what breaks HTTP/2 on the way shows only there.

Only where the job is one of TensorFlow and grpcio can be imported (it comes with TensorFlow); elsewhere the coverage says that
it was not tried. A proxy is never used, because it is no host of the cluster; that one is set is a finding of the config part. The message is larger than any packet, and carries the proof that the caller knows the token.
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
    """Whether grpcio is here; it is imported only when it is used."""
    return importlib.util.find_spec("grpc") is not None


def proof(token: bytes, who: str) -> bytes:
    return hmac.digest(token, b"grpc to " + who.encode("utf-8", "replace"), "sha256")


class GrpcAnswers:
    """A gRPC server with one method that gives back what it gets, to those who know the token."""

    def __init__(self, token: bytes, who: str) -> None:
        grpc = _grpc()
        expected = proof(token, who)

        def echo(request: bytes, context: Any) -> bytes:
            if not hmac.compare_digest(request[:32], expected):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not of this check")
            return request

        handler = grpc.unary_unary_rpc_method_handler(echo)
        service, method = METHOD.strip("/").split("/")
        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(
            self._pool, options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", LARGEST))
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))

    def open(self, port: int) -> int:
        """Listen; the port. Raises ``OSError`` where that cannot be."""
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
    """One call; None if it was answered rightly, else what gRPC says."""
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
    return None if answer == message else "the answer is not what was sent"


def _grpc() -> Any:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return importlib.import_module("grpc")
