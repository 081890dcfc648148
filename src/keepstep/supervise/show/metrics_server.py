# SPDX-License-Identifier: Apache-2.0
"""``keepstep run --metrics``: answers Prometheus, on loopback unless the user names another address."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from keepstep.errors import UserError

PATH = "/metrics"
TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLOWEST_S = 10.0


def parse_address(text: str) -> tuple[str, int]:
    """``9464``, ``0.0.0.0:9464`` or ``[::1]:9464``. Raises ``UserError``."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--metrics is no port: {text}", hint="give --metrics 9464, or ADDRESS:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsServer:
    """In threads of its own: whoever asks, and however often, the run goes on."""

    def __init__(self, address: str, folder: Callable[[], Path]) -> None:
        """``folder``: where the run is recorded now. Raises ``UserError``."""
        host, port = parse_address(address)
        self._folder = folder
        self._lock = threading.Lock()
        self._page: tuple[Path, object] | None = None
        ask = self._answer

        class Handler(BaseHTTPRequestHandler):
            timeout = SLOWEST_S

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(404)
                    return
                body = ask()
                self.send_response(200)
                self.send_header("Content-Type", TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise UserError(f"--metrics {address}: {error.strerror or error}", hint="choose another port") from error
        self._server.daemon_threads = True
        self.address = f"http://{host}:{self._server.server_port}{PATH}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self) -> bytes:
        from keepstep.analyze.run_metrics import RunMetrics
        from keepstep.render.prometheus import render_prometheus

        with self._lock:  # one at a time: a flood of questions costs one of them
            folder = self._folder()
            if self._page is None or self._page[0] != folder:
                self._page = folder, RunMetrics(folder)
            metrics = self._page[1]
            assert isinstance(metrics, RunMetrics)
            return render_prometheus(metrics.families()).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
