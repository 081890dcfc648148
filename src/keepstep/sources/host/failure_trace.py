# SPDX-License-Identifier: Apache-2.0
"""Whether a rank that crashes here leaves something to explain it: messages, a Python stack, a core file."""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from keepstep.base.whole_numbers import whole
from keepstep.model.facts.host import TraceSettings

PATTERN = Path("/proc/sys/kernel/core_pattern")
SUPERVISED = "KEEPSTEP_SUPERVISOR"
"""Set for what `keepstep run` starts: it raises the limit on core files to the hard limit."""


def trace_settings(env: Mapping[str, str], host: str) -> TraceSettings:
    """The settings of a process with these variables that is started from this one."""
    soft, hard = (None if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_CORE))
    return TraceSettings(
        host=host,
        log_level=whole(env.get("TF_CPP_MIN_LOG_LEVEL", "")),
        core_limit=hard if SUPERVISED in env else soft,
        core_limit_most=hard,
        core_handler=_handler(),
        faulthandler=bool(env.get("PYTHONFAULTHANDLER") or env.get("PYTHONDEVMODE")),
    )


def _handler() -> str | None:
    if sys.platform != "linux":
        return None
    pattern = "core"
    with contextlib.suppress(OSError):
        pattern = PATTERN.read_text().strip()
    if not pattern.startswith("|"):
        return None if pattern else ""
    handler = (pattern[1:].split() or ["nobody"])[0]
    kept = "systemd-coredump" in handler and shutil.which("coredumpctl") is not None
    return None if kept else handler
