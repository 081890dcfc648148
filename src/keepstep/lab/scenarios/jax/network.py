# SPDX-License-Identifier: Apache-2.0
"""JAX runs over several hosts whose network is at fault."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.jax.parts import CLOCKS, multi

two_hosts = partial(multi, hosts=2, limit=120)

SCENARIOS = (
    two_hosts(
        "jax_firewall_drops",
        cause="network.unreachable_or_firewall",
        fault="firewall_drops",
        ranks=4,
        clocks=CLOCKS,
        args=("--timeout", "10"),
        note="Process 0's host drops new connections: the other host's processes never register.",
    ),
    two_hosts(
        "jax_firewall_rejects",
        cause="network.unreachable_or_firewall",
        fault="firewall_rejects",
        args=("--timeout", "10"),
        note="Process 0's host rejects new connections.",
    ),
    two_hosts(
        "jax_firewall_one_port",
        cause="network.unreachable_or_firewall",
        fault="firewall_opens_one_port",
        hang=True,
        settle=8,
        note="Only the coordinator's port is open: gloo's own connections are dropped.",
    ),
    two_hosts(
        "jax_firewall_drops_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="firewall_drops_midway",
        strike_ranks=(2,),
        ranks=4,
        clocks=CLOCKS,
        args=("--steps", "20000"),
        note="From step 40 on, all that comes to host 1 is dropped: heartbeats time out.",
    ),
    two_hosts(
        "jax_firewall_rejects_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.connection_reset_peer_died",),
        fault="firewall_rejects_midway",
        args=("--steps", "20000"),
        note="From step 40 on, all that comes to host 1 is answered by a reset; nobody died before.",
    ),
    two_hosts(
        "jax_one_way",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="one_way",
        args=("--steps", "20000"),
        note="From step 40 on, nothing that host 1 sends arrives.",
    ),
    two_hosts(
        "jax_unknown_name",
        cause="network.dns",
        also_accept=("network.unreachable_or_firewall", "network.timeout_slow"),
        fault="unknown_name",
        args=("--timeout", "10"),
        note="The coordinator's name does not resolve on host 1; the logs mention only a deadline.",
    ),
    two_hosts(
        "jax_wrong_interface",
        cause="network.wrong_interface",
        also_accept=("network.unreachable_or_firewall",),
        fault="wrong_interface",
        args=("--timeout", "10"),
        note="The hosts' names resolve to addresses of a link that no cable joins.",
    ),
    two_hosts(
        "jax_localhost",
        cause="config.localhost_address",
        fault="localhost_between_hosts",
        root_ranks=(1,),
        args=("--timeout", "10"),
        note="The coordinator's address is 127.0.0.1 on two hosts.",
    ),
    two_hosts(
        "jax_port_taken_on_host",
        cause="network.port_in_use",
        fault="port_taken_on_host",
        strike_ranks=(0,),
        root_ranks=(0,),
        args=("--timeout", "10"),
        note="Another program on process 0's host listens on the coordinator's port.",
    ),
    two_hosts(
        "jax_slow_link",
        cause="slow.network_bound",
        also_accept=("network.timeout_slow", "slow.straggler"),
        later="run",
        fault="slow_link",
        note="The link of host 1 carries 10 Mbit/s: training is slower and ends well.",
    ),
    two_hosts(
        "jax_mtu",
        cause="network.mtu",
        also_accept=("network.unreachable_or_firewall",),
        later="check",
        fault="mtu_black_hole",
        hang=True,
        settle=8,
        note="Large packets get lost: the processes meet, and their first large collective never ends.",
    ),
)
