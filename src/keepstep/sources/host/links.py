# SPDX-License-Identifier: Apache-2.0
"""What the links of this host say they give: network interfaces, InfiniBand, NVLink and PCIe. Bytes a second."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from keepstep.parse.formats.nvidia_topology import links_of_gpus, nvlink_rates
from keepstep.sources.host.interfaces import INTERFACES

RDMA = Path("/sys/class/infiniband")
LIMIT_S = 10.0
MBIT = 1e6 / 8
PCIE_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""What one lane of each generation gives."""


def speed_of(interface: str, root: Path = INTERFACES) -> float:
    """What a network card negotiated; 0 if there is no card, or it does not say. Of a bond or VLAN its slowest card:
    one connection takes one of them."""
    folder = root / interface
    if (folder / "device").exists():
        with contextlib.suppress(OSError, ValueError):
            return max(0, int((folder / "speed").read_text())) * MBIT
        return 0.0
    with contextlib.suppress(OSError):
        return min((speed_of(each.name[len("lower_") :], root) for each in folder.glob("lower_*")), default=0.0)
    return 0.0


def cards(root: Path = INTERFACES) -> list[str]:
    """The network cards that are up."""
    found = []
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir()):
            with contextlib.suppress(OSError):
                if (folder / "device").exists() and (folder / "operstate").read_text().strip() == "up":
                    found.append(folder.name)
    return found


def rdma(root: Path = RDMA) -> tuple[str, str, float] | None:
    """Of the slowest active port: ``InfiniBand`` or ``RoCE``, its name, what it gives. None if no port is active."""
    found = []
    with contextlib.suppress(OSError):
        for port in sorted(root.glob("*/ports/*")):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if "ACTIVE" not in (port / "state").read_text():
                    continue
                medium = "InfiniBand" if "InfiniBand" in (port / "link_layer").read_text() else "RoCE"
                gbit = float((port / "rate").read_text().split()[0])
                found.append((medium, port.parents[1].name, gbit * 1000 * MBIT))
    return min(found, key=lambda each: each[2]) if found else None


def gpu_links(uuid: str) -> dict[str, tuple[str, float]]:
    """To every other GPU of this host, by its UUID: the link's name as the driver says it (``NV18``, ``PIX``), and
    what it gives, 0 if not known."""
    rows = [row.split(", ") for row in _nvidia("--query-gpu=index,uuid,pcie.link.gen.max,pcie.link.width.max",
                                               "--format=csv,noheader").splitlines()]  # fmt: skip
    known = {int(row[0]): row for row in rows if len(row) == 4 and row[0].isdecimal()}
    own = next((index for index, row in known.items() if row[1].removeprefix("GPU-") == uuid), None)
    if own is None:
        return {}
    links, nvlinks = links_of_gpus(_nvidia("topo", "-m")), nvlink_rates(_nvidia("nvlink", "-s"))
    found = {}
    for index, row in known.items():
        if (name := links.get((own, index))) is None:
            continue
        if name.startswith("NV"):
            gives = int(name[2:]) * min(nvlinks.get(own, 0.0), nvlinks.get(index, 0.0)) if name[2:].isdecimal() else 0.0
        else:
            gives = min(_pcie(known[own]), _pcie(row))
        found[row[1].removeprefix("GPU-")] = (name, gives)
    return found


def _pcie(row: list[str]) -> float:
    generation, width = row[2:]
    return PCIE_LANE.get(int(generation), 0.0) * int(width) if generation.isdecimal() and width.isdecimal() else 0.0


def _nvidia(*words: str) -> str:
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return subprocess.run([tool, *words], capture_output=True, text=True, timeout=LIMIT_S).stdout
    return ""
