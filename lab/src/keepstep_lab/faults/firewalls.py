# SPDX-License-Identifier: Apache-2.0
"""What the network between the hosts does to packets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import Fault

if TYPE_CHECKING:
    from keepstep_lab.run import Run


NEW_CONNECTIONS = ("-i", "eth0", "-p", "tcp", "--syn")
EVERYTHING = ("-i", "eth0", "-p", "tcp")
REJECT = ("-j", "REJECT", "--reject-with")


class _Firewall(Fault):
    """Rules of iptables, and how many packets they have met."""

    TARGET = "DROP"

    def add(self, run: Run, host: int, *rule: str, chain: str = "INPUT") -> None:
        """Add a rule on ``host``."""
        assert run.hosts is not None
        run.hosts.do(host, "iptables", "-A", chain, *rule)

    def counted(self, run: Run) -> dict[int, int]:
        """How many packets the rules have met, by host."""
        assert run.hosts is not None
        met: dict[int, int] = {}
        for host in range(run.hosts.count):
            for line in run.hosts.do(host, "iptables", "-v", "-n", "-x", "-L").splitlines():
                words = line.split()
                if len(words) > 2 and words[2] == self.TARGET and words[0].isdecimal():
                    met[host] = met.get(host, 0) + int(words[0])
        return met

    def proof(self, run: Run) -> str:
        met = self.counted(run)
        if not any(met.values()):
            raise run.unproven(f"the firewall met no packet: {met}")
        told = ", ".join(f"{count} on host {host}" for host, count in met.items())
        return f"packets that the firewall met ({self.TARGET}): {told}"


class _FromTheStart(_Firewall):
    """A rule that is there from the start strikes with the first packet it drops."""

    def outside(self, run: Run) -> None:
        if run.until(lambda: any(self.counted(run).values())):
            run.strike("the first packet was dropped")


class _Midway(_Firewall):
    """A rule that begins in the middle of training."""

    RULE: tuple[str, ...] = ()
    CHAIN = "INPUT"
    TOLD = ""

    def outside(self, run: Run) -> None:
        if run.wait_for(run.scenario.mark):
            host = run.host_of(run.scenario.struck)
            self.add(run, host, *self.RULE, chain=self.CHAIN)
            run.strike(self.TOLD.format(host=host))


class FirewallDrops(_Firewall):
    """The firewall of rank 0's host silently drops every connection from other hosts, from the start."""

    def prepare(self, run: Run) -> None:
        self.add(run, run.host_of(0), *NEW_CONNECTIONS, "-j", "DROP")


class FirewallRejects(_Firewall):
    """The firewall of rank 0's host rejects every connection from other hosts, from the start, as firewalld does."""

    TARGET = "REJECT"

    def prepare(self, run: Run) -> None:
        self.add(run, run.host_of(0), *NEW_CONNECTIONS, *REJECT, "icmp-host-prohibited")


class FirewallOpensOnePort(_FromTheStart):
    """The firewalls let only the meeting port through: the ranks find each other, and then cannot connect."""

    def prepare(self, run: Run) -> None:
        for host in range(run.scenario.hosts):
            self.add(run, host, *EVERYTHING, "--dport", str(run.ports[0]), "-j", "ACCEPT")
            self.add(run, host, *NEW_CONNECTIONS, "-j", "DROP")


class FirewallDropsMidway(_Midway):
    """In the middle of training a firewall begins to drop all that comes to one host."""

    RULE = (*EVERYTHING, "-j", "DROP")
    TOLD = "host {host} drops all that comes in"


class FirewallRejectsMidway(_Midway):
    """In the middle of training a firewall begins to answer all that comes to one host with a reset."""

    TARGET = "REJECT"
    RULE = (*EVERYTHING, *REJECT, "tcp-reset")
    TOLD = "host {host} resets all that comes in"


class OneWay(_Midway):
    """In the middle of training one host is no longer heard: what it sends is dropped, what it gets is not."""

    RULE = ("-o", "eth0", "-p", "tcp", "-j", "DROP")
    CHAIN = "OUTPUT"
    TOLD = "nothing that host {host} sends arrives"


class MtuBlackHole(_FromTheStart):
    """Packets above 1,300 bytes get lost between the hosts, small ones pass: a wrong MTU on the way."""

    LARGEST = 1300

    def prepare(self, run: Run) -> None:
        length = ("-m", "length", "--length", f"{self.LARGEST + 1}:65535")
        for host in range(run.scenario.hosts):
            self.add(run, host, *EVERYTHING, *length, "-j", "DROP")


class SlowLink(Fault):
    """The cable of one host carries 10 Mbit/s only."""

    def prepare(self, run: Run) -> None:
        assert run.hosts is not None
        host = run.host_of(run.scenario.struck)
        shape = ("root", "tbf", "rate", "10mbit", "burst", "4kb", "latency", "400ms")
        run.hosts.at_switch("tc", "qdisc", "add", "dev", f"port{host}", *shape)
        run.hosts.do(host, "tc", "qdisc", "add", "dev", "eth0", *shape)

    def proof(self, run: Run) -> str:
        assert run.hosts is not None
        host = run.host_of(run.scenario.struck)
        told = run.hosts.do(host, "tc", "-s", "qdisc", "show", "dev", "eth0")
        late = re.search(r"overlimits (\d+)", told)
        if late is None or int(late[1]) == 0:
            raise run.unproven(f"nothing was slowed: {told}")
        return f"the link of host {host} made {late[1]} packets wait"
