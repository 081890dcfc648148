# SPDX-License-Identifier: Apache-2.0
"""Keeps the guard's frames out of tracebacks that a framework filters: one left in would hide the frame that raised."""

from __future__ import annotations

import os
from typing import Any

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def leave_out_own_frames(filter_module: Any) -> None:
    """For ``traceback_utils`` of TensorFlow or a Keras; a module that filters in another way is left alone."""
    known = getattr(filter_module, "_EXCLUDED_PATHS", None)
    if isinstance(known, tuple) and OWN not in known:
        filter_module._EXCLUDED_PATHS = (*known, OWN)
