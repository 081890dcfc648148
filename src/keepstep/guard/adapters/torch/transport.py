# SPDX-License-Identifier: Apache-2.0
"""gloo in place of NCCL, where the supervisor asks for it (`--remedy all`)."""

from __future__ import annotations

from typing import Any

from keepstep.guard.transport import collectives

OF_NCCL = ("pg_options", "device_id")


def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of ``init_process_group``, with gloo where they name NCCL or nothing."""
    if collectives() != "gloo":
        return args, kwargs
    given = kwargs.get("backend", args[0] if args else None)
    if given is not None and "nccl" not in str(given).lower():
        return args, kwargs
    kept = {key: value for key, value in kwargs.items() if key not in (*OF_NCCL, "backend")}
    return ("gloo", *args[1:]), kept
