# SPDX-License-Identifier: Apache-2.0
"""Ray: where its head is. The ranks that Ray Train starts carry torch's own variables."""

from __future__ import annotations

from collections.abc import Mapping

from keepstep.cluster.address import read_address
from keepstep.cluster.launcher_answer import ClusterSaid, Variables
from keepstep.model.facts.cluster import Fault

BY_NAME = ("auto", "local")


def read(env: Mapping[str, str]) -> ClusterSaid:
    """RAY_ADDRESS: ``auto``, ``local``, ``HOST:PORT`` or ``ray://HOST:PORT``."""
    text = env.get("RAY_ADDRESS", "").strip()
    if not text or text in BY_NAME:
        return ClusterSaid()
    read = Variables(env)
    address = read_address(text.removeprefix("ray://"), 6379)
    if address.fault is not None:
        better = f"ray://{address.better}" if text.startswith("ray://") and address.better else address.better
        read.fault("RAY_ADDRESS", address.fault or Fault.ADDRESS_MALFORMED, text, "HOST:PORT", better=better)
    return ClusterSaid(faults=read.faults)
