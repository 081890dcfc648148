# SPDX-License-Identifier: Apache-2.0
"""The guard's frames have no place in tracebacks that a framework filters for its user: one of them left in hides the frame that raised."""

from __future__ import annotations

import os
from typing import Any

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def leave_out_own_frames(filter_module: Any) -> None:
    """Of TensorFlow's or a Keras's module ``traceback_utils``; one that filters in another way, or not, is left alone."""
    known = getattr(filter_module, "_EXCLUDED_PATHS", None)
    if isinstance(known, tuple) and OWN not in known:
        filter_module._EXCLUDED_PATHS = (*known, OWN)
