# SPDX-License-Identifier: Apache-2.0
"""This host: which machine it is, its addresses and interfaces, which process holds a port, what names resolve to."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

LOOKUP_LIMIT_S = 5.0


@dataclass(frozen=True)
class Interface:
    name: str
    addresses: tuple[str, ...]
    up: bool
    loopback: bool


def machine() -> str:
    """Distinguishes this machine from others, even if names are equal; containers on one host share it."""
    for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        with contextlib.suppress(OSError):
            return Path(path).read_text().strip()
    return socket.gethostname()


def network_of() -> str:
    """Distinguishes network namespaces on one machine: to the network, each is its own host."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/net")
    return ""


def identity() -> str:
    """Distinguishes hosts as the network sees them: containers with their own network are their own hosts."""
    return f"{machine()} {network_of()}"


def interfaces() -> list[Interface]:
    """The network interfaces with their IP addresses."""
    import psutil

    states = psutil.net_if_stats()
    found = []
    for name, entries in psutil.net_if_addrs().items():
        addresses = tuple(
            entry.address.partition("%")[0] for entry in entries if entry.family in (socket.AF_INET, socket.AF_INET6)
        )
        up = name in states and states[name].isup
        loopback = bool(addresses) and all(ipaddress.ip_address(a).is_loopback for a in addresses)
        found.append(Interface(name, addresses, up, loopback))
    return found


def resolve(names: list[str]) -> dict[str, tuple[tuple[str, ...], str | None]]:
    """What each name resolves to, or why it does not: all at once, and within a time limit."""
    results: dict[str, tuple[tuple[str, ...], str | None]] = {}

    def ask(name: str) -> None:
        try:
            entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            results[name] = (tuple(dict.fromkeys(str(entry[4][0]) for entry in entries)), None)
        except (OSError, UnicodeError) as error:
            results[name] = ((), getattr(error, "strerror", None) or str(error))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LOOKUP_LIMIT_S)
    return {name: results.get(name, ((), f"no answer in {LOOKUP_LIMIT_S:.0f} s")) for name in names}


def port_is_free(port: int) -> bool | None:
    """Whether this process could listen on ``port``; None if it may not try."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(("", port))
        except PermissionError:
            return None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True


def holder_of(port: int) -> tuple[int, str] | None:
    """The process that listens on ``port``, if visible."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError, RuntimeError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                with contextlib.suppress(psutil.Error):
                    return connection.pid, psutil.Process(connection.pid).name()
                return connection.pid, "?"
    return None


def is_ancestor(pid: int) -> bool:
    """Whether ``pid`` started this process, perhaps through others."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return any(parent.pid == pid for parent in psutil.Process().parents())
    return False


def hides_its_gpus() -> bool:
    """Whether its variables leave none: such a run is for the CPU."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip()
    return chosen in ("", "-1") or os.environ.get("JAX_PLATFORMS") == "cpu"


def accelerators() -> int | None:
    """How many GPUs this process may use, by device files and CUDA_VISIBLE_DEVICES; None: there are none for it."""
    count = sum(path.name[6:].isdecimal() for path in Path("/dev").glob("nvidia[0-9]*"))
    if not count or hides_its_gpus():
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return count
    return min(count, len([part for part in chosen.split(",") if part.strip() and part.strip() != "-1"]))
