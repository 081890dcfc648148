# SPDX-License-Identifier: Apache-2.0
"""Several machines on one: network namespaces with their own addresses and names, joined by a switch.

Each host is a process that waits on a pipe inside namespaces of its own, and so is the switch that joins them;
nothing is added to the machine's own network, and all of it is gone with these processes. Two labs cannot meet.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

NETWORK = "198.18.0"
"""Of the range that RFC 2544 sets aside for trials; it exists only inside the namespaces."""
TOOLS = ("unshare", "nsenter", "ip", "iptables", "tc")


def missing() -> str | None:
    """Why there can be no hosts here, or None."""
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(absent)} (Debian: iproute2, iptables, util-linux)" if absent else None


def address(host: int) -> str:
    return f"{NETWORK}.{host + 1}"


def name(host: int) -> str:
    return f"node-{host}"


class Hosts:
    """``count`` machines, up as soon as this is made, gone when it is closed."""

    def __init__(self, count: int, folder: Path, env: dict[str, str]) -> None:
        self.count = count
        self._env = env
        self._stack = contextlib.ExitStack()
        names = "".join(f"{address(i)} {name(i)}\n" for i in range(count))
        (folder / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}")
        switch = "ip link set lo up && ip link add switch type bridge && ip link set switch up"
        self._switch = self._hold(["--net"], switch)
        self._pids = []
        for host in range(count):
            setup = f"hostname {name(host)} && mount --bind {folder}/etc-hosts /etc/hosts && ip link set lo up"
            self._pids.append(self._hold(["--net", "--uts", "--mount"], setup))
        for host, pid in enumerate(self._pids):
            port = f"port{host}"
            self._ip(self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
            self._ip(self._switch, "link", "set", port, "master", "switch", "up")
            self._ip(pid, "addr", "add", f"{address(host)}/24", "dev", "eth0")
            self._ip(pid, "link", "set", "eth0", "up")

    @property
    def holders(self) -> tuple[int, ...]:
        """The processes that hold the hosts' namespaces, by host."""
        return tuple(self._pids)

    @property
    def switch(self) -> int:
        return self._switch

    def inside(self, host: int) -> list[str]:
        """What to put before a command to run it on ``host``."""
        return ["nsenter", f"--target={self._pids[host]}", "--net", "--uts", "--mount", "--"]

    def holder(self, host: int) -> int:
        """The process that holds the namespaces of ``host``."""
        return self._pids[host]

    def do(self, host: int, *command: str) -> str:
        """Run a command on ``host`` (iptables, tc, ip, ...) and return what it printed."""
        return self._do([*self.inside(host), *command])

    def at_switch(self, *command: str) -> str:
        """Run a command where the cables end: the port of host N is called ``portN``."""
        return self._do(["nsenter", f"--target={self._switch}", "--net", "--", *command])

    def close(self) -> None:
        self._stack.close()

    def _hold(self, namespaces: list[str], setup: str) -> int:
        script = f"{setup} && echo ready && read -r _"
        holder = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
            start_new_session=True,
        )
        self._stack.callback(_let_go, holder)
        assert holder.stdout is not None and holder.stderr is not None
        if holder.stdout.readline() != b"ready\n":
            said = holder.stderr.read().decode(errors="replace").strip()
            self.close()
            raise OSError(f"cannot make a host here: {said}")
        return holder.pid

    def _ip(self, pid: int, *words: str) -> None:
        self._do(["nsenter", f"--target={pid}", "--net", "--", "ip", *words])

    def _do(self, command: list[str]) -> str:
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout


def _let_go(holder: subprocess.Popen[bytes]) -> None:
    for pipe in (holder.stdin, holder.stdout, holder.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        holder.wait(5)
