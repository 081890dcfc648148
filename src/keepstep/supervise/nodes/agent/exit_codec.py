# SPDX-License-Identifier: Apache-2.0
"""How a process ended, there and back: what the reaper saw, and what travels."""

from __future__ import annotations

from keepstep.supervise.nodes.messages import Gone
from keepstep.supervise.start.ending import Exit


def as_message(exit_: Exit | None) -> Gone | None:
    if exit_ is None:
        return None
    return Gone(pid=exit_.pid, at=exit_.at, code=exit_.code, signal=exit_.signal, dumped=exit_.dumped)


def as_exit(gone: Gone | None) -> Exit | None:
    if gone is None:
        return None
    return Exit(pid=gone.pid, at=gone.at, code=gone.code, signal=gone.signal, dumped=gone.dumped)
