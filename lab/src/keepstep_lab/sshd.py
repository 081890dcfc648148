# SPDX-License-Identifier: Apache-2.0
"""A real sshd on each machine of the lab, and an ssh client that knows them, with keys and settings of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from keepstep_lab import hosts as lab
from keepstep_lab.machines import Agent, Machines, wait_for

PROGRAMS = ("sshd", "ssh", "ssh-keygen")
RUN = Path("/run/sshd")
"""Where every sshd wants an empty folder, which a mount of each machine's own provides."""
SERVER = """\
Port 22
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PrintMotd no
PrintLastLog no
SetEnv {variables}
"""
CLIENT = """\
IdentityFile {folder}/key
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
"""


def missing() -> str | None:
    """Why there can be no sshd here, or None."""
    absent = [each for each in PROGRAMS if _program(each) is None]
    return f"needs {', '.join(absent)} (Debian: openssh-server)" if absent else lab.missing()


class Sshd:
    """One on each of the machines, until it is closed."""

    def __init__(self, machines: Machines, *, env: Mapping[str, str] | None = None) -> None:
        """``env``: what the programs that ssh starts there find besides the machine's own variables."""
        self._machines = machines
        self._folder = machines.folder / "ssh"
        self._folder.mkdir(mode=0o700)
        for name in ("key", "host-key"):
            self._do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name))
        (self._folder / "client").write_text(CLIENT.format(folder=self._folder))
        client = self._folder / "bin" / "ssh"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec {_program("ssh")} -F {self._folder}/client "$@"\n')
        client.chmod(0o700)
        self._servers = {host: self._serve(host, env or {}) for host in range(machines.net.count)}
        machines.own.update(process.pid for process in self._servers.values())

    def run(self, *options: str, on: tuple[int, ...], check: bool = False) -> Agent:
        """`keepstep run --hosts` from machine 0, with agents on the machines ``on``."""
        names = ",".join(lab.name(host) for host in on)
        words = ("--hosts", names, "--remote", f"{sys.executable} -m keepstep", "--per-node", "1", "--grace", "2")
        path = f"{self._folder / 'bin'}:{os.environ['PATH']}"
        return self._machines.start(0, *words, *options, env={"PATH": path}, check=check)

    def typed(self, *words: str) -> Agent:
        """`keepstep WORDS` on machine 0, as somebody types it in an active environment that ssh does not activate.

        The program of `keepstep run` is one that the script finds by its name, in that environment.
        """
        own = os.path.dirname(sys.executable)
        path = f"{self._folder / 'bin'}:{own}:{os.environ['PATH']}"
        script = [*words, "-c", "import keepstep_lab"] if words[0] == "run" else list(words)
        output = self._machines.of(0, f"typed-{len(self._machines.agents)}.txt")
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [*self._machines.net.inside(0), "env", f"--chdir={self._machines.of(0, 'work')}", "keepstep", *script],
                env={**os.environ, **self._machines.variables(0), "PATH": path},
                stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        self._machines.agents.append(Agent(process, output))
        return self._machines.agents[-1]

    def kill_client(self, host: int) -> None:
        """The ssh client on machine 0 that leads to this machine."""
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if words and words[0] == _program("ssh") and f"{self._folder}/client" in words and lab.name(host) in words:
                process.kill()

    def stop(self, host: int) -> None:
        """This machine refuses ssh from now on; what runs there goes on."""
        process = self._servers[host]
        process.send_signal(signal.SIGTERM)
        process.wait()

    def close(self) -> None:
        for host, process in self._servers.items():
            if process.poll() is None:
                self.stop(host)

    def _serve(self, host: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        machine = self._machines
        variables = {**machine.variables(host), **env, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        settings = self._folder / f"server-{host}"
        told = " ".join(f'"{name}={value}"' for name, value in variables.items())
        settings.write_text(SERVER.format(folder=self._folder, variables=told))
        RUN.mkdir(mode=0o755, exist_ok=True)
        machine.net.do(host, "mount", "-t", "tmpfs", "-o", "mode=755", "sshd", str(RUN))
        process = subprocess.Popen(
            [*machine.net.inside(host), str(_program("sshd")), "-D", "-E", str(self._folder / f"log-{host}"),
             "-f", str(settings)],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(lambda: ":22 " in machine.net.do(host, "ss", "-ltn"), f"sshd on {lab.name(host)}", 10)
        return process

    def _do(self, *words: str) -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def _program(name: str) -> str | None:
    """sshd is often not in the path of the user, and must be started by its full path."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
