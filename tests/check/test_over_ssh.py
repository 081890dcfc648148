# SPDX-License-Identifier: Apache-2.0
"""Checking hosts over ssh: what does not need a network."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from keepstep.check.meeting.over_ssh import over_ssh


def test_an_interrupt_between_two_starts_stays_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen once in CI: Ctrl-C came before the last thread ran, and waiting for that thread broke the check."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec cat\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    start, starts = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        starts.append(thread)
        if len(starts) == 4:
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        over_ssh(("here", "there"), ())
    assert len(starts) == 4
