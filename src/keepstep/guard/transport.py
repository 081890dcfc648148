# SPDX-License-Identifier: Apache-2.0
"""What the supervisor asks ranks to communicate through, after an attempt has failed because of that.

Only `keepstep run` sets these variables, and it prints so before. The user's results stay the same but for rounding.
"""

from __future__ import annotations

import os

COLLECTIVES = "KEEPSTEP_COLLECTIVES"
"""``ring``: in place of NCCL in TensorFlow's communication options. ``gloo``: in place of NCCL in torch."""
INTERFACE = "KEEPSTEP_INTERFACE"
"""The network interface for libraries that have no variable of their own for it."""


def collectives() -> str | None:
    """Which ones to use instead, if any."""
    return os.environ.get(COLLECTIVES) or None


def interface() -> str | None:
    return os.environ.get(INTERFACE) or None
