# SPDX-License-Identifier: Apache-2.0
"""PyTorch runs over several hosts whose network is at fault."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.torch.parts import ddp

CLOCKS = ("+0", "+41", "-17", "Asia/Tokyo")
two_hosts = partial(ddp, hosts=2, limit=120)

SCENARIOS = (
    two_hosts(
        "torch_firewall_drops",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="firewall_drops",
        ranks=4,
        clocks=CLOCKS,
        args=("--timeout", "10"),
        note="Rank 0's host drops new connections: the ranks of the other host never reach the store.",
    ),
    two_hosts(
        "torch_firewall_rejects",
        cause="network.unreachable_or_firewall",
        fault="firewall_rejects",
        args=("--timeout", "10"),
        note="Rank 0's host rejects new connections: no route to host, again and again.",
    ),
    two_hosts(
        "torch_firewall_one_port",
        cause="network.unreachable_or_firewall",
        fault="firewall_opens_one_port",
        args=("--timeout", "10"),
        note="Only the store's port is open: gloo's own connections are dropped.",
    ),
    two_hosts(
        "torch_firewall_drops_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="firewall_drops_midway",
        strike_ranks=(2,),
        ranks=4,
        clocks=CLOCKS,
        args=("--timeout", "10", "--epochs", "200"),
        note="From step 40 on, all that comes to host 1 is dropped; collectives time out on both hosts.",
    ),
    two_hosts(
        "torch_firewall_rejects_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.connection_reset_peer_died",),
        fault="firewall_rejects_midway",
        args=("--timeout", "10", "--epochs", "200"),
        note="From step 40 on, all that comes to host 1 is answered by a reset; nobody died before.",
    ),
    two_hosts(
        "torch_one_way",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="one_way",
        args=("--timeout", "10", "--epochs", "200"),
        note="From step 40 on, nothing that host 1 sends arrives.",
    ),
    two_hosts(
        "torch_unknown_name",
        cause="network.dns",
        fault="unknown_name",
        root_ranks=(1,),
        args=("--timeout", "10"),
        note="MASTER_ADDR is a name that host 1 cannot resolve.",
    ),
    two_hosts(
        "torch_wrong_interface",
        cause="network.wrong_interface",
        also_accept=("network.unreachable_or_firewall",),
        fault="wrong_interface",
        args=("--timeout", "10"),
        note="GLOO_SOCKET_IFNAME names an interface that no cable joins.",
    ),
    two_hosts(
        "torch_localhost",
        cause="config.localhost_address",
        fault="localhost_between_hosts",
        root_ranks=(1,),
        args=("--timeout", "10"),
        note="MASTER_ADDR is localhost on two hosts: rank 1 looks for the store on its own host.",
    ),
    two_hosts(
        "torch_port_taken_on_host",
        cause="network.port_in_use",
        fault="port_taken_on_host",
        strike_ranks=(0,),
        root_ranks=(0,),
        args=("--timeout", "10"),
        limit=60,
        note="Another program on rank 0's host listens on MASTER_PORT.",
    ),
    two_hosts(
        "torch_slow_link",
        cause="slow.network_bound",
        also_accept=("network.timeout_slow", "slow.straggler"),
        later="run",
        fault="slow_link",
        args=("--epochs", "1"),
        note="The link of host 1 carries 10 Mbit/s: training is slower and ends well.",
    ),
    two_hosts(
        "torch_mtu",
        cause="network.mtu",
        also_accept=("network.unreachable_or_firewall",),
        later="check",
        fault="mtu_black_hole",
        hang=True,
        settle=8,
        note="Large packets get lost: the ranks meet, and their first large collective never ends.",
    ),
)
