# SPDX-License-Identifier: Apache-2.0
"""The file beside a black box into which the C library writes the process's exit status."""

from __future__ import annotations

import struct
from pathlib import Path

from keepstep.base.safe_files import open_regular

FORMAT = struct.Struct("=i")


def exit_file(box: Path) -> Path:
    """Empty or absent if the process did not get that far."""
    return box.with_name(f".{box.stem}.exit")


def left_with(box: Path) -> int | None:
    """The status, if there is one. The guard's own goodbye mistakes ``raise SystemExit(3)`` for success."""
    try:
        with open_regular(exit_file(box), follow=False) as stream:
            data = stream.read(FORMAT.size + 1)
    except OSError:
        return None
    return int(FORMAT.unpack(data)[0]) & 0xFF if len(data) == FORMAT.size else None
