# SPDX-License-Identifier: Apache-2.0
"""The hosts of a run as the history shows them last: how old that is, memory and when it is full, GPUs, network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from keepstep.signals.thresholds import reaches
from keepstep.store.history.reader import History
from keepstep.store.history.readings import GPU, HOST
from keepstep.watch.history_past import OLD_S
from keepstep.watch.run_view import HostView, RankView

SOON_S, LOOKED_S, POINTS = 3600.0, 600.0, 60
"""How far ahead memory is forecast, by how much of the past, and by how many values."""
FULL = 1.0


def hosts_in(history: History, ranks: Sequence[RankView], at: float, *, is_live: bool) -> tuple[HostView, ...]:
    """Those that matter first: not seen for long, soon full, most memory in use."""
    found, gpus = history.newest(HOST), history.newest(GPU)
    memory = history.several("host_memory_share", found, at - LOOKED_S, at, POINTS) if is_live else {}
    hosts = []
    for name, each in found.items():
        value = {reading: number for reading, (number, _) in each.values.items()}
        own = [gpu.values for gpu in gpus.values() if gpu.host == each.host]
        past = [(point.time, point.mean) for point in memory.get(name, ())]
        hosts.append(
            HostView(
                host=each.host,
                ranks=sum(rank.host in (name, each.host) for rank in ranks),
                age_s=max(0.0, at - each.at),
                cpu=value.get("host_cpu"),
                memory=value.get("host_memory_share"),
                full_in_s=reaches(past, FULL, SOON_S),
                disk=value.get("disk_share"),
                gpus=len(own),
                tpus=any("tpu_memory" in device for device in own),
                gpu_busy=min(_of_devices(own, "gpu_busy", "tpu_busy"), default=None),
                gpu_memory=max(_of_devices(own, "gpu_memory_share", "tpu_memory_share"), default=None),
                net_in=value.get("net_in"),
                net_out=value.get("net_out"),
                resent=value.get("net_retransmits"),
            )
        )
    newest = min((each.age_s for each in hosts), default=0.0)
    hosts.sort(key=lambda each: (each.age_s - newest < OLD_S, each.full_in_s or SOON_S, -(each.memory or 0.0)))
    return tuple(hosts)


def _of_devices(devices: Iterable[Mapping[str, tuple[float, float]]], *readings: str) -> list[float]:
    return [each[name][0] for each in devices for name in readings if name in each]
