# SPDX-License-Identifier: Apache-2.0
"""While the script deletes a folder, nothing is written into it: `shutil.rmtree` fails where a file appears."""

from __future__ import annotations

import functools
import shutil
import threading
from typing import Any

LONGEST_S = 1.0
"""A script waits no longer for a record that is being written."""
still = threading.RLock()
"""Held by whoever writes into a folder of the script, and while the script deletes one."""


def watch() -> None:
    """`tempfile.TemporaryDirectory` goes through it as well."""
    original: Any = shutil.rmtree
    if hasattr(original, "_keepstep"):
        return

    @functools.wraps(original)
    def rmtree(*args: Any, **kwargs: Any) -> Any:
        held = still.acquire(timeout=LONGEST_S)
        try:
            return original(*args, **kwargs)
        finally:
            if held:
                still.release()

    rmtree._keepstep = True  # type: ignore[attr-defined]
    shutil.rmtree = rmtree  # type: ignore[assignment]
