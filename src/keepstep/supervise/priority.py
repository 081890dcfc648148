# SPDX-License-Identifier: Apache-2.0
"""Priority for what must not come late on a crowded host, where the system allows it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

URGENT = -10


def urgently() -> None:
    """Give this thread and the processes it starts priority, if allowed: on a crowded host looks come too late."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)


@contextlib.contextmanager
def urgent() -> Iterator[None]:
    """The same for a while: processes that are started within keep their priority, this thread does not."""
    try:
        before = os.getpriority(os.PRIO_PROCESS, 0)
    except (OSError, AttributeError):
        yield
        return
    urgently()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)
