# SPDX-License-Identifier: Apache-2.0
"""TensorFlow runs over several hosts whose network is at fault."""

from __future__ import annotations

from functools import partial

from keepstep.lab.scenarios.tensorflow.parts import mwms

CLOCKS = ("+0", "+41", "-17", "Asia/Tokyo")
two_hosts = partial(mwms, hosts=2, limit=120)
starting = partial(mwms, hosts=2, limit=60, args=("--register-timeout", "15"))
"""The workers that are reached wait forever, whatever the others' time limit is."""

SCENARIOS = (
    starting(
        "tf_firewall_drops",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="firewall_drops",
        ranks=4,
        clocks=CLOCKS,
        note="Worker 0's host drops new connections: the other host's workers never register.",
    ),
    starting(
        "tf_firewall_rejects",
        cause="network.unreachable_or_firewall",
        fault="firewall_rejects",
        note="Worker 0's host rejects new connections.",
    ),
    two_hosts(
        "tf_firewall_drops_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="firewall_drops_midway",
        strike_ranks=(2,),
        mark="step 20",
        limit=150,
        ranks=4,
        clocks=CLOCKS,
        args=("--steps", "20000", "--epochs", "2000", "--timeout", "15"),
        note="From step 20 on, all that comes to host 1 is dropped.",
    ),
    two_hosts(
        "tf_firewall_rejects_midway",
        cause="network.unreachable_or_firewall",
        also_accept=("network.connection_reset_peer_died",),
        fault="firewall_rejects_midway",
        args=("--steps", "20000", "--epochs", "2000", "--timeout", "15"),
        note="From step 40 on, all that comes to host 1 is answered by a reset; nobody died before.",
    ),
    two_hosts(
        "tf_one_way",
        cause="network.unreachable_or_firewall",
        also_accept=("network.timeout_slow",),
        fault="one_way",
        args=("--steps", "20000", "--epochs", "2000", "--timeout", "15"),
        note="From step 40 on, nothing that host 1 sends arrives.",
    ),
    starting(
        "tf_unknown_name",
        cause="network.dns",
        also_accept=("network.unreachable_or_firewall", "network.timeout_slow"),
        fault="unknown_name",
        note="TF_CONFIG has worker 0 by a name that host 1 cannot resolve; the logs mention only a deadline.",
    ),
    starting(
        "tf_wrong_interface",
        cause="network.wrong_interface",
        also_accept=("network.unreachable_or_firewall",),
        fault="wrong_interface",
        note="TF_CONFIG has the hosts' addresses on a link that no cable joins.",
    ),
    starting(
        "tf_port_taken_on_host",
        cause="network.port_in_use",
        fault="port_taken_on_host",
        strike_ranks=(1,),
        root_ranks=(1,),
        note="Another program on host 1 listens on worker 1's port.",
    ),
    two_hosts(
        "tf_slow_link",
        cause="slow.network_bound",
        also_accept=("network.timeout_slow", "slow.straggler"),
        later="run",
        fault="slow_link",
        note="The link of host 1 carries 10 Mbit/s: training is slower and ends well.",
    ),
    two_hosts(
        "tf_mtu",
        cause="network.mtu",
        also_accept=("network.unreachable_or_firewall",),
        later="check",
        fault="mtu_black_hole",
        note="Large packets get lost, and the heartbeats behind them: the workers meet and then lose each other.",
    ),
)
