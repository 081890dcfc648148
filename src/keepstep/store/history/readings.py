# SPDX-License-Identifier: Apache-2.0
"""What is measured during a run: one row for each reading. A row's number is in every file: it never changes."""

from __future__ import annotations

from dataclasses import dataclass

from keepstep.signals.blackbox import BoxPhase

RANK, HOST, GPU = "rank", "host", "gpu"


@dataclass(frozen=True)
class Reading:
    """One kind of measured value."""

    name: str
    unit: str
    """``share`` is 0 to 1."""
    read: str
    """What was read, for people."""
    of: str
    """What has it: a rank, a host or a GPU, among which TPUs are counted."""
    number: int
    type: str = "f"
    """How it is kept: ``f`` single and ``d`` double precision, ``B`` a share and ``b`` a whole number in one byte."""
    kept: str = "spread"
    """What a tile keeps: the ``spread`` (lowest, mean, highest), the ``mean``, or the ``last`` value."""


def _in(phase: BoxPhase, read: str) -> Reading:
    return Reading(in_phase(phase), "share", read, RANK, 20 + int(phase), "B", kept="mean")


def in_phase(phase: BoxPhase) -> str:
    """The name of the reading: the share of its time that a rank was in this phase."""
    return f"in_{phase.name.lower()}"


_ROWS = (
    Reading("phase", "phase", "what the rank did for most of the time, by its black box", RANK, 1, "b", kept="last"),
    Reading("step", "steps", "steps done, as the guard counts them", RANK, 2, "d", kept="last"),
    Reading("step_s", "s", "time of a step, by the black box", RANK, 3),
    Reading("wait", "share", "time spent waiting for a batch, or not moving in a step", RANK, 4, "B"),
    Reading("quiet_s", "s", "time since the black box last moved", RANK, 5),
    Reading("loss", "", "loss that the script printed", RANK, 6),
    Reading("memory", "bytes", "resident memory of the rank's processes (VmRSS)", RANK, 7),
    Reading("cpu", "cores", "processor time of the rank's processes", RANK, 8),
    Reading("files", "files", "open file descriptors of the rank's process", RANK, 9, kept="last"),
    Reading("files_share", "share", "open file descriptors, of the process's limit", RANK, 10),
    Reading("device_memory", "bytes", "the most that tensors held of the rank's device", RANK, 11, kept="last"),
    Reading("device_memory_share", "share", "the most that tensors held of the rank's device", RANK, 12, kept="last"),
    Reading("busy", "share", "time in which the training's thread ran or wanted to", RANK, 13, "B", kept="mean"),
    Reading("left_s", "s", "time that the rest takes, by how far the rank prints it is", RANK, 14, kept="last"),
    *(
        _in(phase, f"time spent {phase.words}, by the black box")
        for phase in BoxPhase
    ),
    Reading("host_cpu", "share", "busy time of all processors (/proc/stat)", HOST, 50),
    Reading("host_memory", "bytes", "memory in use, of the host or the control group", HOST, 51),
    Reading("host_memory_share", "share", "memory in use, of the host or the control group", HOST, 52),
    Reading("swap", "bytes", "swap space in use", HOST, 53),
    Reading("disk_free", "bytes", "free space of the fullest disk that the run writes to", HOST, 54),
    Reading("disk_share", "share", "used space of the fullest disk that the run writes to", HOST, 55),
    Reading("shm_share", "share", "used space of /dev/shm", HOST, 56),
    Reading("net_in", "bytes/s", "bytes received by all network devices but loopback", HOST, 57),
    Reading("net_out", "bytes/s", "bytes sent by all network devices but loopback", HOST, 58),
    Reading("net_share", "share", "throughput of the busiest network device, of its link speed", HOST, 59),
    Reading("net_drops", "packets/s", "packets that network devices dropped", HOST, 60),
    Reading("net_retransmits", "share", "TCP segments that were sent again", HOST, 61),
    Reading("gpu_busy", "share", "time in which a kernel ran on the GPU (nvidia-smi utilization.gpu)", GPU, 80),
    Reading("gpu_memory", "bytes", "memory of the GPU in use (nvidia-smi memory.used)", GPU, 81),
    Reading("gpu_memory_share", "share", "memory of the GPU in use (nvidia-smi memory.used)", GPU, 82),
    Reading("gpu_celsius", "°C", "temperature of the GPU (nvidia-smi temperature.gpu)", GPU, 83),
    Reading("gpu_ecc", "errors", "uncorrected memory errors of the GPU since the driver started", GPU, 84, kept="last"),
    Reading("tpu_busy", "share", "time in which the TPU chip computed (libtpu's duty cycle)", GPU, 85),
    Reading("tpu_memory", "bytes", "memory of the TPU in use (libtpu's hbm.memory.usage)", GPU, 86),
    Reading("tpu_memory_share", "share", "memory of the TPU in use (libtpu's hbm.memory.usage)", GPU, 87),
)  # fmt: skip
READINGS: dict[str, Reading] = {each.name: each for each in _ROWS}
"""By name."""
BY_NUMBER: dict[int, Reading] = {each.number: each for each in _ROWS}
