# SPDX-License-Identifier: Apache-2.0
"""The children that test devices, seen from outside: what they say, until all have ended or are ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

SILENT_S = 600.0
"""A child that says nothing for this long is ended: its device hangs."""
LOOK_EVERY_S = 0.5
LONGEST_LINE = 1 << 20


@dataclass
class Child:
    """One device under test. ``said``: the last message of each kind."""

    label: str
    asked: dict[str, Any]
    env: dict[str, str] = field(default_factory=dict)
    said: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    """The first wrong value of each kind, with the count of all."""
    without: list[str] = field(default_factory=list)
    """Types of numbers that this device or framework cannot multiply."""
    ended_because: str | None = None
    """Why we ended it, or how it ended before it was done."""

    @property
    def done(self) -> dict[str, Any]:
        """How far it came."""
        return self.said.get("progress", {})

    def start(self) -> None:
        env = {**os.environ, **self.env, "KEEPSTEP": "off", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "keepstep.check.gpu.child", json.dumps(self.asked)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is ours to handle, and so are the programs that it starts
        )
        self._heard, self._buffer = time.monotonic(), b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def listen(self) -> bool:
        """Take in what it has said; False: it has ended."""
        data = os.read(self.fileno(), 1 << 16)
        self._heard = time.monotonic()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._buffer = self._buffer[-LONGEST_LINE:]
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                message = json.loads(line)
                self._take(message.pop("say"), message)
        if not data:
            status = self._process.wait()
            if not {"end", "cut", "failed", "devices"} & self.said.keys() and self.ended_because is None:
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
                self.ended_because = f"its process ended with {how}"
        return bool(data)

    def _take(self, what: str, message: dict[str, Any]) -> None:
        if what == "wrong":
            kind = message["what"], message["dtype"]
            same = next((each for each in self.wrong if (each["what"], each["dtype"]) == kind), None)
            if same is None:
                self.wrong.append(message)
            else:
                same["count"] += message["count"]
        elif what == "without":
            self.without.append(message["dtype"])
        else:
            self.said[what] = message

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self._heard > SILENT_S

    def end(self, why: str) -> None:
        """Kill it; that is noticed when it is listened to."""
        if self.ended_because is None and self._process.poll() is None:
            self.ended_because = why
            self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def leave(self) -> None:
        """Kill it if it lives, and close its pipe."""
        if hasattr(self, "_process"):
            self._kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


def attend(children: Iterable[Child], look: Callable[[], None] = lambda: None) -> bool:
    """Start all, and listen until all have ended; ``look`` is called now and then. False: interrupted by Ctrl-C."""
    children = list(children)
    try:
        with selectors.DefaultSelector() as waiting:
            for child in children:
                child.start()
                waiting.register(child, selectors.EVENT_READ)
            while waiting.get_map():
                for key, _ in waiting.select(LOOK_EVERY_S):
                    child = key.fileobj  # type: ignore[assignment]
                    if not child.listen():
                        waiting.unregister(child)
                for child in children:
                    if child.is_silent:
                        child.end(f"it said nothing for {SILENT_S:.0f} s")
                look()
        return True
    except KeyboardInterrupt:
        return False
    finally:
        for child in children:
            child.leave()
