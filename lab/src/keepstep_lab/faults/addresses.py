# SPDX-License-Identifier: Apache-2.0
"""Ports, names and addresses at which the ranks cannot meet."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


def meet_at(run: Run, host: str, rank: int) -> None:
    """Tell every rank that ``rank`` is to be met at ``host``."""
    for env in run.env:
        if run.scenario.framework == "torch":
            env["MASTER_ADDR"] = host
        elif run.scenario.framework == "jax":
            env["COORDINATOR_ADDRESS"] = f"{host}:{run.ports[0]}"
        else:
            config = json.loads(env["TF_CONFIG"])
            for addresses in config["cluster"].values():
                for n, address in enumerate(addresses):
                    if address.endswith(f":{run.ports[rank]}"):
                        addresses[n] = f"{host}:{run.ports[rank]}"
            env["TF_CONFIG"] = json.dumps(config)


class PortTaken(Fault):
    """Another program already listens on the port of rank 0 (torch, TensorFlow) or of the coordinator (JAX)."""

    LISTENING = "0A"

    def prepare(self, run: Run) -> None:
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            taken = run.stack.enter_context(socket.socket(family))
            if family == socket.AF_INET6:
                taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken.bind((address, run.ports[0]))
            taken.listen()

    def proof(self, run: Run) -> str:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listeners = {
            row[9] for row in rows if row[3] == self.LISTENING and int(row[1].rpartition(":")[2], 16) == run.ports[0]
        }
        ours = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists() or path.is_symlink()}
        if not any(f"socket:[{inode}]" in ours for inode in listeners):
            raise run.unproven(f"port {run.ports[0]} is not ours")
        return f"port {run.ports[0]} belongs to another program than the job"


class PortTakenOnHost(Fault):
    """On the host of the rank it hits, another program already listens on the rank's port."""

    LISTEN = """
import socket, sys, time
taken = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
time.sleep(600)
"""

    def prepare(self, run: Run) -> None:
        assert run.hosts is not None
        command = [
            *run.hosts.inside(run.host_of(run.scenario.struck)),
            run.python,
            "-c",
            self.LISTEN,
            str(self._port(run)),
        ]
        other = subprocess.Popen(command, env=run.env[0], stdout=subprocess.PIPE, start_new_session=True)
        run.stack.callback(self._end, other)
        assert other.stdout is not None
        other.stdout.readline()

    def proof(self, run: Run) -> str:
        assert run.hosts is not None
        host, port = run.host_of(run.scenario.struck), self._port(run)
        listeners = [
            line for line in run.hosts.do(host, "ss", "-H", "-t", "-l", "-n").splitlines() if f":{port} " in line
        ]
        if len(listeners) != 1:
            raise run.unproven(f"{len(listeners)} listen on port {port} of host {host}")
        return f"one other program listens on port {port} of host {host}"

    def _port(self, run: Run) -> int:
        return run.ports[run.scenario.struck if run.scenario.framework == "tensorflow" else 0]

    def _end(self, other: subprocess.Popen[bytes]) -> None:
        other.kill()
        other.wait()


class UnknownName(Fault):
    """The ranks meet by name, and one host cannot resolve it."""

    def prepare(self, run: Run) -> None:
        assert run.hosts is not None
        host = run.host_of(run.scenario.struck)
        meet_at(run, "node-0", 0)
        known = run.work / "etc-hosts-short"
        known.write_text(f"127.0.0.1 localhost\n{run.address_of(run.scenario.struck)} node-{host}\n")
        run.hosts.do(host, "mount", "--bind", str(known), "/etc/hosts")

    def proof(self, run: Run) -> str:
        assert run.hosts is not None
        asked = 'getent hosts node-0 || echo "unknown"'
        answers = [run.hosts.do(host, "sh", "-c", asked).strip() for host in range(run.scenario.hosts)]
        if answers[run.host_of(run.scenario.struck)] != "unknown" or answers[0] == "unknown":
            raise run.unproven(f"the hosts know node-0 as {answers}")
        return f"node-0 resolves as {', '.join(answers)} on the hosts"


class UnresolvableHost(Fault):
    """The address that all ranks were given has a host name that no resolver knows."""

    HOST = "trainer-0.trainer-headless.ml.svc.cluster.local"

    def prepare(self, run: Run) -> None:
        rank = (run.scenario.strike_ranks or (0,))[0]
        port = run.ports[rank]
        for env in run.env:
            if run.scenario.framework == "torch":
                env["MASTER_ADDR"] = self.HOST
            elif run.scenario.framework == "jax":
                env["COORDINATOR_ADDRESS"] = f"{self.HOST}:{port}"
            else:
                env["TF_CONFIG"] = env["TF_CONFIG"].replace(f"{run.address_of(rank)}:{port}", f"{self.HOST}:{port}")

    def proof(self, run: Run) -> str:
        try:
            socket.getaddrinfo(self.HOST, run.ports[0])
        except socket.gaierror as error:
            return f"{self.HOST}: {error.strerror}"
        raise run.unproven(f"{self.HOST} resolves here")


class LocalhostBetweenHosts(Fault):
    """Ranks on several hosts were told to meet at localhost: each host looks at itself."""

    def prepare(self, run: Run) -> None:
        meet_at(run, "localhost" if run.scenario.framework == "torch" else "127.0.0.1", 0)

    def proof(self, run: Run) -> str:
        assert run.hosts is not None
        port = str(run.ports[0])
        listens = [port in run.hosts.do(host, "ss", "-H", "-t", "-l", "-n") for host in range(run.scenario.hosts)]
        if any(listens[1:]):
            raise run.unproven("somebody listens at the meeting port of a host without rank 0")
        return f"nobody listens at localhost:{port} of {len(listens) - 1} of {len(listens)} hosts"


class LocalhostForEveryTask(LocalhostBetweenHosts):
    """Every task of the cluster has localhost, on ports of their own, and they run on several hosts."""

    def prepare(self, run: Run) -> None:
        for rank in range(run.scenario.ranks):
            meet_at(run, "localhost", rank)


class WrongInterface(Fault):
    """Each host has a second interface that no cable joins, and the ranks use its address."""

    DEAD = "198.19.7"

    def prepare(self, run: Run) -> None:
        assert run.hosts is not None
        names = "".join(f"{self.DEAD}.{host + 1} node-{host}\n" for host in range(run.scenario.hosts))
        for host in range(run.scenario.hosts):
            run.hosts.do(host, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "cable1")
            run.hosts.do(host, "ip", "link", "set", "cable1", "up")
            run.hosts.do(host, "ip", "addr", "add", f"{self.DEAD}.{host + 1}/24", "dev", "eth1")
            run.hosts.do(host, "ip", "link", "set", "eth1", "up")
        if run.scenario.framework == "torch":
            for env in run.env:
                env["GLOO_SOCKET_IFNAME"] = "eth1"
        elif run.scenario.framework == "jax":
            # gloo of JAX listens at the address of the host's own name
            (run.work / "etc-hosts").write_text(f"127.0.0.1 localhost\n{names}")
        else:
            for rank in range(run.scenario.ranks):
                meet_at(run, f"{self.DEAD}.{run.host_of(rank) + 1}", rank)

    def proof(self, run: Run) -> str:
        sent = [self._sent(run, host) for host in range(run.scenario.hosts)]
        if not any(sent):
            raise run.unproven("nothing was sent over the dead interface")
        return f"packets sent into the interface without a cable, by host: {', '.join(map(str, sent))}"

    def _sent(self, run: Run, host: int) -> int:
        """How many packets (ARP's questions too) went out of eth1."""
        assert run.hosts is not None
        for line in run.hosts.do(host, "cat", "/proc/net/dev").splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == "eth1":
                return int(counts.split()[9])
        return 0
