# SPDX-License-Identifier: Apache-2.0
"""What is known of each device: its memory, and what is taken of it besides tensors."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from keepstep.base.did_you_mean import did_you_mean
from keepstep.errors import UserError

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, kw_only=True)
class Device:
    """``total`` is what a program sees of it. ``context``: what CUDA takes before the first tensor."""

    name: str
    total: int
    capability: tuple[int, int] = (8, 0)
    context: tuple[int, int] = (300 * MIB, 700 * MIB)
    context_from: str = "assumed"
    tpu: str = ""
    """What its compiler calls it, if it is a TPU."""
    cpu: bool = False
    """The training is on the processors, in the memory of the host."""

    @property
    def library_workspace(self) -> int:
        """What cuBLAS takes for each thread that multiplies: one forward, one backward (assumed)."""
        return 32 * MIB if self.capability >= (9, 0) else 8320 << 10


NCCL = (200 * MIB, 1 * GIB)
"""Buffers of a group of several ranks (assumed)."""


def _gpu(name: str, gib: float, capability: tuple[int, int]) -> Device:
    return Device(name=name, total=int(gib * GIB), capability=capability)


DEVICES = {
    "t4": _gpu("Tesla T4", 14.56, (7, 5)),
    "v100-16gb": _gpu("Tesla V100 16 GB", 15.77, (7, 0)),
    "v100-32gb": _gpu("Tesla V100 32 GB", 31.73, (7, 0)),
    "l4": _gpu("NVIDIA L4", 22.03, (8, 9)),
    "a10g": _gpu("NVIDIA A10G", 22.06, (8, 6)),
    "rtx3090": _gpu("GeForce RTX 3090", 23.56, (8, 6)),
    "rtx4090": _gpu("GeForce RTX 4090", 23.52, (8, 9)),
    "rtx5090": _gpu("GeForce RTX 5090", 31.36, (12, 0)),
    "a6000": _gpu("RTX A6000", 47.4, (8, 6)),
    "l40s": _gpu("NVIDIA L40S", 44.39, (8, 9)),
    "a100-40gb": _gpu("NVIDIA A100 40 GB", 39.38, (8, 0)),
    "a100-80gb": _gpu("NVIDIA A100 80 GB", 79.14, (8, 0)),
    "h100": _gpu("NVIDIA H100 80 GB", 79.11, (9, 0)),
    "h100-nvl": _gpu("NVIDIA H100 NVL", 93.0, (9, 0)),
    "h200": _gpu("NVIDIA H200", 139.7, (9, 0)),
    "b200": _gpu("NVIDIA B200", 178.3, (10, 0)),
    "v5e": Device(name="TPU v5e", total=int(15.75 * GIB), context=(0, 0), tpu="v5e"),
    "v5p": Device(name="TPU v5p", total=int(95.74 * GIB), context=(0, 0), tpu="v5p"),
    "v6e": Device(name="TPU v6e", total=int(31.25 * GIB), context=(0, 0), tpu="v6e"),
}
"""Totals are assumed: none was measured here, and they differ a little between drivers."""
CPU = "cpu"


def device_named(text: str) -> Device:
    """``h200``, or an amount of memory: ``80GB``, ``24GiB``."""
    if text.lower() == CPU:
        pages, each = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return Device(name="the memory of this host", total=pages * each, context=(0, 0), cpu=True)
    known = DEVICES.get(text.lower())
    if known is not None:
        return known
    total = amount(text)
    if total is None:
        hint = did_you_mean(
            text.lower(), (*DEVICES, CPU), "`--device list` shows all; an amount such as 80GB is fine too"
        )
        raise UserError(f"no such device: {text}", hint=hint)
    if not total:
        raise UserError(f"--device {text} has no memory", hint="give an amount such as 80GB")
    return Device(name=text, total=total)


def amount(text: str) -> int | None:
    """Bytes of ``80GB``, ``24GiB``; None if it is none."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)\s*(GB|GiB|G|MB|MiB|M)", text, re.IGNORECASE)
    if found is None:
        return None
    unit = {"gb": 10**9, "mb": 10**6, "g": GIB, "m": MIB, "gib": GIB, "mib": MIB}[found[2].lower()]
    return int(float(found[1]) * unit)
