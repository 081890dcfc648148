# SPDX-License-Identifier: Apache-2.0
"""Priority for what must not come late on a crowded host, where the system allows it. Ranks never have any."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

PROMPT, EAGER = -5, -3


def eagerly() -> None:
    """Give this thread and the processes it starts some priority, if allowed: on a crowded host looks come too late.

    Less than the beats between nodes have: a look takes seconds of processor time.
    """
    _rise(EAGER)


def promptly() -> None:
    """For threads that keep nodes in touch: they do little, and no run should end because a host is crowded.

    All threads of a leader have it, because one without it would keep the interpreter's lock for long.
    """
    _rise(PROMPT)


@contextlib.contextmanager
def ordinarily() -> Iterator[None]:
    """A process that is started within has the priority that the user gave us."""
    before = _now()
    if before is None or _GIVEN is None or before >= _GIVEN:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, _GIVEN)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def no_longer_behind(pid: int) -> None:
    """All threads of a process that has stepped back get the priority that the user gave us, if that is allowed."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                if _GIVEN is not None and os.getpriority(os.PRIO_PROCESS, int(task)) > _GIVEN:
                    os.setpriority(os.PRIO_PROCESS, int(task), _GIVEN)


def _rise(level: int) -> None:
    now = _now()
    with contextlib.suppress(OSError):
        if now is not None and now > level:
            os.setpriority(os.PRIO_PROCESS, 0, level)


def _now() -> int | None:
    """Of this thread (a process, where the system knows no priority of threads)."""
    with contextlib.suppress(OSError, AttributeError):
        return os.getpriority(os.PRIO_PROCESS, 0)
    return None


_GIVEN = _now()
