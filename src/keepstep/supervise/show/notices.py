# SPDX-License-Identifier: Apache-2.0
"""What people are paged for, by webhook, Slack or command: a hang, a restart, the end, no progress, a limit passed."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from keepstep.base.redact import redact
from keepstep.base.wording import shorten
from keepstep.extend.run_settings import NoticeSettings
from keepstep.supervise.show.on_failure import call, post

SCHEMA = "keepstep.notice/1"
TIMEOUT_S = 10.0
LAST_S = 15.0


class Notices:
    """Each is sent from a thread of its own: whoever receives them, the run goes on."""

    def __init__(self, settings: NoticeSettings, say: Callable[[str], None]) -> None:
        self.settings = settings
        self._say = say
        self._sending: list[threading.Thread] = []

    def send(self, kind: str, text: str, run: Path | None, *, ways: tuple[str, ...] = ("webhook", "command")) -> None:
        """``kind``: one that the user wants to hear of, else nothing is sent; ``threshold`` always is."""
        if not self.settings.any or (kind != "threshold" and kind not in self.settings.on):
            return
        sending = threading.Thread(target=self._send, args=(kind, text, run, ways), daemon=True)
        sending.start()
        self._sending = [each for each in self._sending if each.is_alive()] + [sending]

    def _send(self, kind: str, text: str, run: Path | None, ways: tuple[str, ...]) -> None:
        for line in sent(self.settings, kind, text, run, ways):
            self._say(f"notice ({kind}): {line}")

    def close(self) -> None:
        """Give them a moment."""
        until = time.monotonic() + LAST_S
        for each in self._sending:
            each.join(timeout=max(0.0, until - time.monotonic()))


def sent(settings: NoticeSettings, kind: str, text: str, run: Path | None, ways: tuple[str, ...]) -> list[str]:
    """Send one now. Returns a line for each receiver, which says how it went. Never raises."""
    text, name = redact(text), str(run) if run is not None else ""
    said = {"schema": SCHEMA, "kind": kind, "text": text, "run": name, "host": socket.gethostname(), "at": time.time()}
    lines = []
    for way, target in (("webhook", settings.webhook), ("webhook", settings.slack), ("command", settings.command)):
        if target is None or way not in ways:
            continue
        try:
            if way == "command":
                variables = {"KEEPSTEP_KIND": kind, "KEEPSTEP_TEXT": text, "KEEPSTEP_FOLDER": name}
                lines.append(call(target, json.dumps(said).encode(), variables, TIMEOUT_S))
            else:
                document = {"text": f"keepstep, {kind}: {text} ({name})"} if target == settings.slack else said
                lines.append(post(target, json.dumps(document).encode(), TIMEOUT_S))
        except Exception as error:  # the receiver is the user's: whatever it does, the run continues
            lines.append(f"it failed: {shorten(redact(f'{type(error).__name__}: {error}'), 120)}")
    return lines
