"""A Ray cluster on one machine: each raylet lives in network namespaces of its own, with its own /tmp/ray."""

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from keepstep_lab import hosts as lab_hosts
from keepstep_lab.hosts import Hosts, address

PORT = 6379
START_S = 180.0
TRIES = 4
"""Ray gives a raylet 30 s to show itself, which is not much on a crowded machine."""
HAS_JOBS = all(importlib.util.find_spec(name) is not None for name in ("ray", "aiohttp", "aiohttp_cors", "opencensus"))
"""Whether jobs can be submitted: `ray[default]` is installed, not only `ray`."""


def missing() -> str | None:
    """Why there can be no cluster here, or None."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed"
    return lab_hosts.missing()


class RayCluster:
    """``count`` nodes; node 0 is the head. Each of them has ``cpus`` CPUs."""

    def __init__(self, count: int, folder: Path, *, cpus: int = 2, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),  # its own: never one that this machine's user may have
            **(env or {}),
        }
        self.hosts = Hosts(count, folder, self.env)
        self.count, self.cpus = count, cpus
        for host in range(count):
            (folder / f"ray-{host}").mkdir()
            self.hosts.do(host, "mkdir", "-p", "/tmp/ray")
            self.hosts.do(host, "mount", "--bind", str(folder / f"ray-{host}"), "/tmp/ray")

    def start(self, host: int) -> None:
        """The raylet of this node, and on node 0 the head."""
        words = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--node-ip-address={address(host)}"]
        words += [f"--num-cpus={self.cpus}", "--object-store-memory=80000000"]
        words += (
            ["--head", f"--port={PORT}", f"--include-dashboard={str(HAS_JOBS).lower()}"]
            if host == 0
            else [f"--address={address(0)}:{PORT}"]
        )
        for tried in range(TRIES):
            with open(self.folder / f"ray-start-{host}", "w+") as said:  # the daemons keep what they inherit
                done = subprocess.run(
                    [*self.hosts.inside(host), *words],
                    env=self.env,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=START_S,
                )
                said.seek(0)
                assert done.returncode == 0 or tried < TRIES - 1, said.read()
            if done.returncode == 0:
                return
            self.die(host)

    def command(self, host: int, *words: str) -> subprocess.Popen[str]:
        """Something that runs on a node, in a session of its own."""
        return subprocess.Popen(
            [*self.hosts.inside(host), "env", f"--chdir={self.folder}", *words],
            env={**self.env, "RAY_ADDRESS": f"{address(0)}:{PORT}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def pids(self, host: int) -> dict[int, str]:
        """The processes on this node, with their command lines; not the one that holds the node."""
        holder = self.hosts.inside(host)[1].removeprefix("--target=")
        network = os.readlink(f"/proc/{holder}/ns/net")
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry.name != holder and os.readlink(entry / "ns/net") == network:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if words:  # a zombie has none
                        found[int(entry.name)] = words
        return found

    def of_the_run(self, host: int) -> dict[int, str]:
        """Those that belong to a keepstep run."""
        return {pid: words for pid, words in self.pids(host).items() if "keepstep" in words or "train.py" in words}

    def die(self, host: int) -> None:
        """All processes of the node, at once, as when its power fails."""
        for pid in self.pids(host):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def cut(self, host: int) -> None:
        """No packet gets in or out any more; nobody is told."""
        self.hosts.do(host, "iptables", "-A", "INPUT", "-i", "eth0", "-j", "DROP")
        self.hosts.do(host, "iptables", "-A", "OUTPUT", "-o", "eth0", "-j", "DROP")

    def mend(self, host: int) -> None:
        self.hosts.do(host, "iptables", "-F")

    def close(self) -> None:
        for host in range(self.count):
            self.die(host)
        until = time.monotonic() + 10
        while any(self.pids(host) for host in range(self.count)) and time.monotonic() < until:
            for host in range(self.count):
                self.die(host)
            time.sleep(0.1)
        self.hosts.close()


@contextlib.contextmanager
def ray_cluster(count: int, folder: Path, **more: int) -> Iterator[RayCluster]:
    cluster = RayCluster(count, folder, **more)
    try:
        for host in range(count):
            cluster.start(host)
        yield cluster
    finally:
        cluster.close()
