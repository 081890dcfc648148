# SPDX-License-Identifier: Apache-2.0
"""Lets JAX detect the world that ``keepstep run`` made: a bare ``jax.distributed.initialize()`` then works.

JAX has a variable only for the coordinator's address; it takes the number of processes and the rank from a cluster
environment that it knows.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any

NAME = "keepstep"
MEETING_S = 2.0
CLOSED_S = 0.005
LISTENING = re.compile(r" *\d+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:0000 0A ")


def register(clusters: Any) -> type[Any]:
    """Add our environment before all others that JAX asks: the supervisor may itself run under one of them."""
    base: Any = clusters.ClusterEnv

    class KeepstepCluster(base):  # type: ignore[misc]
        name = NAME
        opt_in_only_method = False

        @classmethod
        def is_env_present(cls) -> bool:
            return all(os.environ.get(name) for name in ("KEEPSTEP_COORDINATOR", "KEEPSTEP_RANK", "KEEPSTEP_WORLD"))

        @classmethod
        def get_coordinator_address(cls, timeout_secs: Any = None, override_coordinator_port: Any = None) -> str:
            """Versions of JAX differ in what they pass here."""
            address = os.environ["KEEPSTEP_COORDINATOR"]
            return f"{address.rpartition(':')[0]}:{override_coordinator_port}" if override_coordinator_port else address

        @classmethod
        def get_process_count(cls) -> int:
            return int(os.environ["KEEPSTEP_WORLD"])

        @classmethod
        def get_process_id(cls) -> int:
            return int(os.environ["KEEPSTEP_RANK"])

        @classmethod
        def get_local_process_id(cls) -> int | None:
            """One device per process unless the script says otherwise; all devices if there is only one process."""
            return (
                int(os.environ["KEEPSTEP_RANK"])
                if int(os.environ["KEEPSTEP_WORLD"]) > 1 and _has_devices_to_share()
                else None
            )

    known = getattr(base, "_cluster_types", None)
    if isinstance(known, list) and known and known[-1] is KeepstepCluster:
        known.insert(0, known.pop())
    return KeepstepCluster


def await_coordinator(
    coordinator_address: Any = None, num_processes: Any = None, process_id: Any = None, *others: Any, **more: Any
) -> None:
    """Wait until this host's coordinator listens. A JAX client that finds the port closed retries only after a second.

    Called with what ``initialize`` is called with. Never waits for a coordinator that the supervisor did not choose,
    nor for long.
    """
    address = os.environ.get("KEEPSTEP_COORDINATOR")
    own = process_id if process_id is not None else os.environ.get("KEEPSTEP_RANK")
    if (
        not address
        or str(own) == "0"
        or (coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS") or address) != address
    ):
        return
    until = time.monotonic() + MEETING_S
    while not _is_open(int(address.rpartition(":")[2])) and time.monotonic() < until:
        time.sleep(CLOSED_S)


def _is_open(port: int) -> bool:
    """Whether a process on this host listens there. The kernel knows: a connection attempt might take the port away."""
    seen = False
    for table in ("/proc/net/tcp6", "/proc/net/tcp"):
        with contextlib.suppress(OSError), open(table) as stream:
            seen = True
            if any(LISTENING.match(line) and int(line.split()[1].rpartition(":")[2], 16) == port for line in stream):
                return True
    return not seen


def _has_devices_to_share() -> bool:
    """Several GPUs on this host, which its processes share out."""
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/kfd")) and not os.environ.get(
        "JAX_LOCAL_DEVICE_IDS"
    )
