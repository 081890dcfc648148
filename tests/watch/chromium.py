# SPDX-License-Identifier: Apache-2.0
"""A real Chromium, driven through a pair of pipes by its own protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.supervise.starting import LIMIT_S, wait_for

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")

_ON_3_AND_4 = """
import os, sys
orders, answers = (os.dup(os.dup(os.dup(int(each)))) for each in sys.argv[1:3])
os.dup2(orders, 3); os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium wants its pipes there."""


class Chromium:
    """One browser with one page."""

    def __init__(self, process: subprocess.Popen[bytes], answers: int, orders: int) -> None:
        self._process, self._answers, self._orders = process, answers, orders
        self._number, self._read, self._session = 0, b"", ""
        self.said: list[str] = []
        """What the page complained about: errors, refused loads."""
        self.asked_for: list[str] = []
        page = self._ask("Target.createTarget", {"url": "about:blank"}, of_page=False)["targetId"]
        self._session = self._ask("Target.attachToTarget", {"targetId": page, "flatten": True}, of_page=False)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable", {})

    def _ask(self, method: str, parameters: dict[str, Any], *, of_page: bool = True) -> dict[str, Any]:
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if of_page:
            order["sessionId"] = self._session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._hear(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._answers, 1 << 20)
            assert more, f"Chromium ended with {self._process.poll()}"
            self._read += more
        one, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(one))

    def _hear(self, event: dict[str, Any]) -> None:
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.said.append(json.dumps(about["exceptionDetails"])[:600])
        elif event.get("method") == "Log.entryAdded":
            self.said.append(f"{about['entry'].get('text')} {about['entry'].get('url', '')}")
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked_for.append(about["request"]["url"])

    def open(self, address: str, wide: int = 1280, high: int = 800, *, dark: bool = False) -> None:
        size = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", {"features": scheme})
        self._ask("Page.navigate", {"url": address})

    def value(self, script: str) -> Any:
        """What a piece of JavaScript gives."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return self._ask("Runtime.evaluate", asked)["result"].get("value")

    def until(self, script: str) -> Any:
        return wait_for(lambda: self.value(script))

    def key(self, name: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", {"type": kind, "key": name, "code": name})

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", {"format": "png"})["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    assert PROGRAM is not None
    (orders_out, orders_in), (answers_out, answers_in) = os.pipe(), os.pipe()
    words = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    order = [sys.executable, "-c", _ON_3_AND_4, str(orders_out), str(answers_in), *words, f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(order, pass_fds=(orders_out, answers_in), stdout=quiet, stderr=quiet)
    os.close(orders_out)
    os.close(answers_in)
    try:
        yield Chromium(process, answers_out, orders_in)
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        os.close(orders_in)
        os.close(answers_out)
