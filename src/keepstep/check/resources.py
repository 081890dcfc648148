# SPDX-License-Identifier: Apache-2.0
"""The resources part: what this host offers, and whether it caused failures before."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from keepstep.base.wording import size
from keepstep.check.place import Collected, Place
from keepstep.model.facts.host import TroubleBefore
from keepstep.model.facts.platform import DeviceFault
from keepstep.parse.tools.cuda import xid
from keepstep.sources.host import capacity, nvidia
from keepstep.sources.host.failure_trace import trace_settings
from keepstep.sources.host.kernel_log import read_kernel_log
from keepstep.store import failed_hosts

HISTORY_S = 86_400.0
GPU_WORDS = ("NVRM", "Xid", "nvlink", "GPU")


def look(place: Place) -> Collected:
    """Memory, shared memory, disks, limits, cores, devices and history of this host."""
    looked = Collected()
    memory = capacity.memory()
    looked.add(place.saw(memory, "/proc/meminfo", f"{size(memory.available)} of {size(memory.total)} available"))
    if shm := capacity.shared_memory():
        looked.add(place.saw(shm, "/dev/shm", f"{size(shm.free)} of {size(shm.total)} free"))
    for path in dict.fromkeys((*place.paths, Path(tempfile.gettempdir()))):
        disk = capacity.disk(path)
        looked.add(place.saw(disk, str(path), disk.error or f"{size(disk.free)} of {size(disk.total)} free"))
    for limit in capacity.limits():
        looked.add(place.saw(limit, "limits", f"{limit.name}: {limit.soft if limit.soft is not None else 'no limit'}"))
    cores = capacity.cores(place.env, _ranks_here(place))
    looked.add(place.saw(cores, "cores", f"{cores.cores} cores for {cores.ranks_here} ranks"))
    gpus, why_not = nvidia.gpus()
    for gpu in gpus:
        looked.add(place.saw(gpu, f"GPU {gpu.index}", f"{gpu.name}: {size(gpu.used)} of {size(gpu.total)} used"))
    if why_not:
        looked.unavailable(f"GPUs of {place.host}", why_not)
    looked.take(_device_faults(place))
    for lock in capacity.tpu_locks(place.env):
        looked.add(place.saw(lock, lock.path, lock.holder or "no process holds it"))
    looked.add(place.saw(trace_settings(place.env, place.host), "what a crash leaves"))
    if trouble := _trouble(place):
        looked.add(place.saw(trouble, "earlier failures", f"{trouble.began} of the last {trouble.of}"))
    looked.checked("memory, disks, limits" + (f" and {len(gpus)} GPUs" if gpus else ""))
    return looked


def _device_faults(place: Place) -> Collected:
    """What the kernel said about this host's GPUs in the last day: faults of the device itself, a failed link.

    What an earlier program brought on itself (Xid 43 and its like) says nothing about the next one.
    """
    looked = Collected()
    lines, coverage = read_kernel_log(time.time() - HISTORY_S, None)
    looked.coverage += coverage
    for at, text in lines:
        if any(word in text for word in GPU_WORDS):
            for fact in (found for signature in xid.SIGNATURES if (found := signature.read(text)) is not None):
                if not isinstance(fact, DeviceFault) or fact.hardware:
                    looked.add(replace(place.saw(fact, "the kernel log", text), at=at))
    return looked


def _ranks_here(place: Place) -> int:
    local = place.env.get("LOCAL_WORLD_SIZE", "")
    if local.isdecimal() and 0 < len(local) < 7:
        return int(local)
    own = place.cluster.own if place.cluster else None
    if place.cluster is None or own is None or own.host is None:
        return 1
    return sum(task.host == own.host for task in place.cluster.tasks)


def _trouble(place: Place) -> TroubleBefore | None:
    """Only for a job on several hosts: with one host, there is none to leave out."""
    if place.cluster is None or len({task.host for task in place.cluster.tasks}) < 2:
        return None
    failures = failed_hosts.remembered()
    mine = [cause for name, cause in failures if name == place.host]
    if not mine:
        return None
    return TroubleBefore(host=place.host, began=len(mine), of=len(failures), last_cause=mine[-1])
