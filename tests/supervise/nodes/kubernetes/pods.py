# SPDX-License-Identifier: Apache-2.0
"""Pods of an indexed Job as processes: namespaces of their own, and the environment that Kubernetes would give them.

Each pod has a network address, a host name, a hosts file as the kubelet writes it, and a process namespace in which
keepstep is process 1. `Pods` stands in for the cluster: it names the pods, mounts the Secret, ends pods as a kubelet
does, and starts them again as the Job's controller does. There is no Kubernetes behind it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keepstep.supervise.engines.kubernetes import PREEMPTED
from keepstep_lab import hosts

RANK = """
import os, signal, sys, time
rank, attempt, life = os.environ["RANK"], os.environ["KEEPSTEP_ATTEMPT"], os.environ["LIFE"]
def save(*_):
    open(f"saved-{life}-{attempt}-{rank}", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
with open(f"started-{life}-{attempt}-{rank}", "w") as file:
    file.write(os.environ["MASTER_ADDR"])
until = time.time() + 120
while not os.path.exists(f"go-{life}-{attempt}") and time.time() < until:
    time.sleep(0.05)
if os.path.exists(f"kill-{life}-{attempt}-{rank}"):
    os.kill(os.getpid(), 9)
if os.path.exists("raise"):
    raise ValueError("the labels do not fit the model")
print("rank", rank, "is done")
"""
JOB, SERVICE = "train", "train"
DOMAIN = f"{SERVICE}.default.svc.cluster.local"
PATIENCE_S = 60.0
POD = """
set -e
cd {folder}
hostname {name}
mount --bind {hosts} /etc/hosts
mkdir -p {secret} && mount -t tmpfs -o size=64k tmpfs {secret}
mkdir {secret}/..2026_01_01 && printf %s "$THE_SECRET" > {secret}/..2026_01_01/secret
chmod 644 {secret}/..2026_01_01/secret
ln -s ..2026_01_01 {secret}/..data && ln -s ..data/secret {secret}/secret && mount -o remount,ro {secret}
unset THE_SECRET
exec "$@"
"""


@dataclass
class Pod:
    index: int
    machine: int
    process: subprocess.Popen[bytes]
    said: Path

    @property
    def first(self) -> int:
        """Process 1 of the pod, by its number outside."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        wait_for(lambda: bool(path.read_text().split()), "the pod to start")
        return int(path.read_text().split()[0])

    @property
    def words(self) -> str:
        return self.said.read_text(errors="replace")

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)


class Pods:
    """The pods of one Job on a few machines. ``life`` tells pods that were all started again from those before."""

    def __init__(self, folder: Path, machines: int, nodes: int = 2) -> None:
        self.folder, self.nodes, self.spares = folder, nodes, 0
        self._secret = secrets.token_hex(32)
        (folder / "lab").mkdir()
        self._hosts = hosts.Hosts(machines, folder / "lab", dict(os.environ))
        self._addresses: dict[int, str] = {}
        self.pods: list[Pod] = []
        (folder / "train.py").write_text(RANK)

    def start(self, index: int, machine: int, *, life: int = 0) -> Pod:
        """What the Job's controller and a kubelet do."""
        name, number = f"{JOB}-{index}", len(self.pods)
        self._addresses[index] = hosts.address(machine)
        (self.folder / f"hosts-{number}").touch()
        said = self.folder / f"said-{number}"
        script = POD.format(
            folder=self.folder,
            name=name,
            hosts=self.folder / f"hosts-{number}",
            secret=self.folder / f"secret-{number}",
        )
        command = [sys.executable, "-m", "keepstep", "run", "--per-node", "1", "--nodes", str(self.nodes), "--no-check"]
        command += ["--spare-nodes", str(self.spares)] if self.spares else []
        command += ["--no-spares", "--wait", "60", "--run-dir", f"runs-{number}", "--", sys.executable, "train.py"]
        unshared = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with open(said, "wb") as out:
            process = subprocess.Popen(
                [*self._hosts.inside(machine), *unshared, "sh", "-c", script, "sh", *command],
                cwd=self.folder,
                env=self._env(name, index, number, life),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pod = Pod(index, machine, process, said)
        self.pods.append(pod)
        self._name_all()
        return pod

    def _env(self, name: str, index: int, number: int, life: int) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "HOME") if key in os.environ}
        return {
            **kept,
            "HOSTNAME": name,
            "JOB_COMPLETION_INDEX": str(index),
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
            "KEEPSTEP_SECRET_FILE": str(self.folder / f"secret-{number}" / "secret"),
            "THE_SECRET": self._secret,
            "KEEPSTEP": "off",
            "LIFE": str(life),
        }

    def _name_all(self) -> None:
        """A pod's hosts file knows the pod itself; what a name server would say about the others follows it."""
        for number, pod in enumerate(self.pods):
            name = f"{JOB}-{pod.index}"
            lines = ["127.0.0.1 localhost", f"{hosts.address(pod.machine)} {name}.{DOMAIN} {name}"]
            lines += [f"{at} {JOB}-{i}.{DOMAIN}" for i, at in self._addresses.items() if i != pod.index]
            (self.folder / f"hosts-{number}").write_text("\n".join(lines) + "\n")

    def evict(self, pod: Pod, grace_s: float = 30.0) -> int:
        """SIGTERM to process 1, and SIGKILL after the grace period."""
        os.kill(pod.first, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return pod.process.wait(grace_s)
        return self.kill(pod)

    def kill(self, pod: Pod) -> int:
        """Without notice: all processes of the pod end with process 1."""
        os.kill(pod.first, signal.SIGKILL)
        return pod.ended()

    def started(self, attempt: int, *ranks: int, life: int = 0) -> None:
        paths = [self.folder / f"started-{life}-{attempt}-{rank}" for rank in ranks]
        wait_for(lambda: all(path.exists() and path.read_text() for path in paths), f"attempt {attempt}", self)

    def go(self, attempt: int, *ranks: int, life: int = 0) -> None:
        """Let the ranks of an attempt go on, once all have started."""
        self.started(attempt, *ranks, life=life)
        (self.folder / f"go-{life}-{attempt}").touch()

    def saved(self, life: int = 0) -> list[str]:
        return sorted(path.name for path in self.folder.glob(f"saved-{life}-*"))

    def close(self) -> None:
        for pod in self.pods:
            with contextlib.suppress(OSError):
                os.killpg(pod.process.pid, signal.SIGKILL)
            pod.process.wait()
        self._hosts.close()

    @property
    def words(self) -> str:
        return "\n".join(f"--- {JOB}-{pod.index}\n{pod.words}" for pod in self.pods)


def wait_for(condition: Callable[[], bool], what: str, pods: Pods | None = None) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}\n{pods.words if pods is not None else ''}"
        time.sleep(0.05)


def ended_by_eviction(*pods: Pod) -> bool:
    return [pod.ended() for pod in pods] == [PREEMPTED] * len(pods)
