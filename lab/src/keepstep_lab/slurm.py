# SPDX-License-Identifier: Apache-2.0
"""A real Slurm whose nodes are hosts of the lab: a network namespace, a name and a ``slurmd`` each.

Host 0 has the controller; nodes are hosts 1, 2, ... Everything runs with the lab's token in its environment and is
ended by it: ``scancel`` leaves processes in a session of their own alive where no control group holds them.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from keepstep_lab import hosts as lab_hosts
from keepstep_lab import sweeper
from keepstep_lab.hosts import Hosts
from keepstep_lab.sweeper import VARIABLE, carriers

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol")
UP_S = 30.0
END_S = 15.0
CONTROLLER = 0
FIRST_PORT = 6818
"""Of the first node's daemon."""
CONF = """\
ClusterName=keepstep
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge},cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/ctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmdTimeout={timeout}
KillWait=15
InactiveLimit=0
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
{nodes}
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no Slurm here, or None."""
    absent = [each for each in PROGRAMS if shutil.which(each) is None]
    if absent:
        return f"needs {', '.join(absent)} (Debian: slurm-wlm, munge)"
    return lab_hosts.missing()


class Slurm:
    """``count`` nodes, idle as soon as this is made; all of it is gone when it is closed."""

    def __init__(
        self, count: int, folder: Path, *, slurmd_timeout_s: int = 10, cpus: int = 4, together: bool = False
    ) -> None:
        """``together``: all nodes are on host 1, as where one machine runs several ``slurmd``."""
        self.token = secrets.token_hex(12)
        self._together = together
        self.folder = folder
        self.env = {**os.environ, VARIABLE: self.token, "SLURM_CONF": str(folder / "slurm.conf")}
        self.nodes = tuple(lab_hosts.name(host) for host in range(1, count + 1))
        self._started: list[subprocess.Popen[bytes]] = []
        self._sweeper = subprocess.Popen(
            [sys.executable, sweeper.__file__, self.token, str(folder / "munge")],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.hosts = Hosts(count + 1, folder, self.env)
        try:
            for each in ("state", "log"):
                (folder / each).mkdir(mode=0o755)
            self._write_conf(slurmd_timeout_s, cpus)
            self._start_munge()
            self._start(CONTROLLER, "slurmctld", "-D")
            for node in self.nodes:
                self.start_node(node)
            self._wait_until_idle()
        except BaseException:
            self.close()
            raise

    # --- using it

    def run(self, *command: str, limit_s: float = 60.0) -> str:
        """A client's answer, asked from the controller's host."""
        done = subprocess.run(
            [*self.hosts.inside(CONTROLLER), *command], env=self.env, capture_output=True, text=True, timeout=limit_s
        )
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, script: Path, *words: str, cwd: Path, env: Mapping[str, str] | None = None) -> int:
        """``sbatch``; returns the job's number."""
        done = subprocess.run(
            [*self.hosts.inside(CONTROLLER), "sbatch", "--parsable", f"--chdir={cwd}", *words, str(script)],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60.0,
        )
        if done.returncode != 0:
            raise OSError(f"sbatch: {done.stderr.strip()}")
        return int(done.stdout.split(";")[0])

    def start(self, command: list[str], out: Path) -> int:
        """A command on the controller's host that runs srun; returns the number of the job that it makes."""
        before = set(self.jobs())
        self._start(CONTROLLER, *command, out=out)
        end = time.monotonic() + UP_S
        while time.monotonic() < end:
            if new := set(self.jobs()) - before:
                return min(new)
            time.sleep(0.2)
        raise OSError(f"srun made no job: {out.read_text(errors='replace')}")

    def jobs(self) -> list[int]:
        return [int(word) for word in self.run("squeue", "-h", "-o", "%A").split()]

    def state(self, job: int) -> str:
        """Of a job, as the controller says; empty if it has forgotten it."""
        with contextlib.suppress(OSError):
            found = re.search(r"\bJobState=(\w+)", self.run("scontrol", "show", "job", "-o", str(job)))
            return found[1] if found else ""
        return ""

    def exit_code(self, job: int) -> str:
        """Of a job, and the signal that ended it, as in ``1:0``."""
        found = re.search(r"\bExitCode=(\S+)", self.run("scontrol", "show", "job", "-o", str(job)))
        return found[1] if found else ""

    def node_state(self, node: str) -> str:
        found = re.search(r"\bState=(\S+)", self.run("scontrol", "show", "node", "-o", node))
        return found[1] if found else ""

    # --- its nodes

    def processes(self, node: str) -> list[int]:
        """All that live on a node, but for the namespaces' holder and the daemon."""
        daemons = (b"slurmd", b"slurmctld", b"munged")
        return [pid for pid in self._all(node) if _program(pid) not in daemons]

    def start_node(self, node: str) -> None:
        self._start(self._host(node), "slurmd", "-D", "-N", node)

    def cut(self, node: str) -> None:
        """Drop all packets from and to a node."""
        for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
            self.hosts.do(self._host(node), "iptables", "-I", chain, "!", way, "lo", "-j", "DROP")

    def reject(self, node: str, *what: str) -> None:
        """Refuse what the words of iptables describe, from and to a node, as if nobody listened there."""
        for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
            rule = ("iptables", "-I", chain, "!", way, "lo", *what, "-j", "REJECT", "--reject-with", "tcp-reset")
            self.hosts.do(self._host(node), *rule)

    def mend(self, node: str) -> None:
        self.hosts.do(self._host(node), "iptables", "-F")

    def power_off(self, node: str) -> None:
        """Its cable first, so no connection is closed; then everything that runs there."""
        self.hosts.at_switch("ip", "link", "set", f"port{self._host(node)}", "down")
        self._kill(lambda: self._all(node))

    def close(self) -> None:
        """End everything that carries the token, by its id."""
        holders = (*self.hosts.holders, self.hosts.switch)
        self._kill(lambda: [pid for pid in {*carriers(self.token), *self._everywhere()} if pid not in holders])
        for each in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(5)
        self.hosts.close()
        assert self._sweeper.stdin is not None
        self._sweeper.stdin.close()
        self._sweeper.wait(END_S)

    def _host(self, node: str) -> int:
        return 1 if self._together else self.nodes.index(node) + 1

    def _everywhere(self) -> list[int]:
        return [pid for host in range(len(self.nodes) + 1) for pid in self._inside(host)]

    def _all(self, node: str) -> list[int]:
        return self._inside(self._host(node))

    def _inside(self, host: int) -> list[int]:
        holder = self.hosts.holders[host]
        wanted, found = os.readlink(f"/proc/{holder}/ns/net"), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != holder:
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "ns" / "net") == wanted:
                        found.append(int(entry.name))
        return found

    def _kill(self, find: Callable[[], list[int]]) -> None:
        end = time.monotonic() + END_S
        while (found := find()) and time.monotonic() < end:
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for each in self._started:
                each.poll()
            time.sleep(0.05)

    # --- making it

    def _write_conf(self, timeout_s: int, cpus: int) -> None:
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={lab_hosts.name(self._host(node))} "
            f"NodeAddr={lab_hosts.address(self._host(node))} Port={FIRST_PORT + each} CPUs={cpus}"
            for each, node in enumerate(self.nodes)
        )
        text = CONF.format(
            controller=lab_hosts.name(CONTROLLER),
            address=lab_hosts.address(CONTROLLER),
            munge=self.folder / "munge" / "socket",
            folder=self.folder,
            timeout=timeout_s,
            nodes=nodes,
        )
        (self.folder / "slurm.conf").write_text(text)

    def _start_munge(self) -> None:
        """One for all nodes: they share a file system, and its socket is a file."""
        room = self.folder / "munge"
        room.mkdir(mode=0o755)
        key = room / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        words = [f"--socket={room}/socket", f"--key-file={key}", f"--log-file={room}/log", f"--pid-file={room}/pid"]
        self._start(CONTROLLER, "munged", "--foreground", "--force", *words, f"--seed-file={room}/seed")
        end = time.monotonic() + UP_S
        while not (room / "socket").exists():
            if time.monotonic() > end:
                raise OSError("munged did not come up")
            time.sleep(0.05)

    def _start(self, host: int, *command: str, out: Path | None = None) -> None:
        with (out or self.folder / "log" / f"{command[0]}-{host}.txt").open("ab") as log:
            self._started.append(
                subprocess.Popen(
                    [*self.hosts.inside(host), *command],
                    env=self.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _wait_until_idle(self) -> None:
        end = time.monotonic() + UP_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(len(self.nodes)):
                    return
            time.sleep(0.2)
        raise OSError(f"the nodes did not come up: {self.run('sinfo', '-h', '-N', '-o', '%N %T')}")


def _program(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_bytes().strip()
    return b""
