# SPDX-License-Identifier: Apache-2.0
"""The world that ``keepstep run`` made, as one that JAX detects: a bare ``jax.distributed.initialize()`` then works.

JAX has a variable for the coordinator's address only; count and number of processes come from an environment that it knows.
"""

from __future__ import annotations

import os
from typing import Any

NAME = "keepstep"


def register(clusters: Any) -> type[Any]:
    """Add the environment to those that JAX asks, before all others: the supervisor may itself run under one of them."""
    base: Any = clusters.ClusterEnv

    class KeepstepCluster(base):  # type: ignore[misc]
        name = NAME
        opt_in_only_method = False

        @classmethod
        def is_env_present(cls) -> bool:
            return all(os.environ.get(name) for name in ("KEEPSTEP_COORDINATOR", "KEEPSTEP_RANK", "KEEPSTEP_WORLD"))

        @classmethod
        def get_coordinator_address(cls, timeout_secs: Any = None, override_coordinator_port: Any = None) -> str:
            """Versions of JAX differ in what they give here."""
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
            """One device a process where the script is not told otherwise; all devices where there is only one process."""
            return int(os.environ["KEEPSTEP_RANK"]) if int(os.environ["KEEPSTEP_WORLD"]) > 1 and _has_devices_to_share() else None

    known = getattr(base, "_cluster_types", None)
    if isinstance(known, list) and known and known[-1] is KeepstepCluster:
        known.insert(0, known.pop())
    return KeepstepCluster


def _has_devices_to_share() -> bool:
    """Several GPUs of this host, which its processes divide among them."""
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/kfd")) and not os.environ.get("JAX_LOCAL_DEVICE_IDS")
