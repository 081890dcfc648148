# SPDX-License-Identifier: Apache-2.0
"""Links between ranks: their kinds by what the kernel and the driver say, and the pairs that are far below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.collectives.links import APART, HERE, End, link_between
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.collectives import CollectiveTried
from keepstep.parse.formats.nvidia_topology import links_of_gpus, nvlink_rates
from keepstep.render.collective_table import render_collective_table
from keepstep.rules.hardware.slow_gpu_link import slow_gpu_link
from keepstep.rules.network.slow_pair import slow_pair
from keepstep.sources.host.links import cards, rdma, speed_of
from tests.check.conftest import Cluster

SIZE = 4 << 20
GBIT = 1e9 / 8
TOPOLOGY = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tSYS\tPIX\tPXB\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tSYS\tSYS\t0-55\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNODE\tSYS\t56-111\t1\t\tN/A
GPU3\tPIX\tSYS\tNODE\t X \tSYS\t56-111\t1\t\tN/A
NIC0\tPXB\tSYS\tSYS\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""
NVLINKS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000000)
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000001)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
"""


def test_the_driver_says_which_link_joins_two_gpus_and_what_an_nvlink_gives() -> None:
    links = links_of_gpus(TOPOLOGY)
    assert len(links) == 12 and links[0, 1] == links[1, 0] == "NV18"
    assert (links[0, 3], links[2, 3], links[0, 2]) == ("PIX", "NODE", "SYS")
    assert links_of_gpus("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n") == {} == links_of_gpus("")
    assert nvlink_rates(NVLINKS) == {0: 26.562e9, 1: 26.562e9}


def card(root: Path, name: str, speed: str, state: str = "up") -> None:
    (root / name / "device").mkdir(parents=True)
    (root / name / "speed").write_text(f"{speed}\n")
    (root / name / "operstate").write_text(f"{state}\n")


def test_a_card_says_its_speed_and_what_is_no_card_says_nothing(tmp_path: Path) -> None:
    card(tmp_path, "eth0", "25000")
    card(tmp_path, "eth1", "10000", "down")
    card(tmp_path, "eth2", "-1")
    for name, lower in (("bond0", ("eth0", "eth1")), ("veth7", ())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text("10000\n")  # veth always says so
        for each in lower:
            (tmp_path / name / f"lower_{each}").symlink_to(tmp_path / each)
    speeds = {name: speed_of(name, tmp_path) / GBIT for name in ("eth0", "eth2", "bond0", "veth7", "none")}
    assert speeds == {"eth0": 25.0, "eth2": 0.0, "bond0": 10.0, "veth7": 0.0, "none": 0.0}
    assert cards(tmp_path) == ["eth0", "eth2"]


def test_of_infiniband_the_slowest_active_port_counts(tmp_path: Path) -> None:
    for name, state, rate, layer in (
        ("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"),
        ("mlx5_1", "4: ACTIVE", "200 Gb/sec (4X HDR)", "InfiniBand"),
        ("mlx5_2", "1: DOWN", "40 Gb/sec (4X QDR)", "InfiniBand"),
    ):
        port = tmp_path / name / "ports" / "1"
        port.mkdir(parents=True)
        for file, text in (("state", state), ("rate", rate), ("link_layer", layer)):
            (port / file).write_text(f"{text}\n")
    assert rdma(tmp_path) == ("InfiniBand", "mlx5_1", 25e9)
    assert rdma(tmp_path / "none") is None


def test_a_kind_is_claimed_only_where_both_ends_know_it() -> None:
    here = End("a", "node-a", "loopback", "ethernet", "eth0", 25 * GBIT)
    slow = here._replace(host="b", name="node-b", gives=GBIT)
    unknown = End("c", "node-c", "loopback", APART, "", 0.0)
    assert link_between(here, here).medium == "loopback"
    assert link_between(here, slow)[::2] == ("ethernet", GBIT)
    assert "eth0 of node-b says 1 Gbit/s" in link_between(here, slow).words
    assert link_between(here, unknown)[::2] == (APART, 0.0)
    gpu = here._replace(here=HERE, gpu="x", gpus={"y": ("NV18", 478e9), "z": ("PIX", 31.5e9)})
    assert link_between(gpu, gpu._replace(gpu="y")) == ("NVLink", "NV18, 478.0 GB/s", 478e9)
    assert link_between(gpu, gpu._replace(gpu="z")).medium == "PCIe"
    assert link_between(gpu, gpu._replace(gpu="?")).medium == HERE


def tried(
    pair: tuple[int, int], bytes_s: float, medium: str, gives: float = 0.0, again: bool = False
) -> CollectiveTried:
    return CollectiveTried(
        framework="torch", backend="gloo", operation="all_reduce", dtype="float32", size=SIZE, groups=2, members=2,
        rounds=8, median_s=SIZE / bytes_s, pair=pair, medium=medium, gives_bytes_s=gives, again=again,
    )  # fmt: skip


def seen(*facts: CollectiveTried) -> EvidenceSet:
    return EvidenceSet([Evidence(fact=fact, origin=Origin(source="x"), quote=fact.words) for fact in facts])


PAIRS = ((0, 1), (2, 3), (0, 3), (1, 2), (0, 2), (1, 3))


@pytest.mark.parametrize(
    ("medium", "gives", "rate", "named"),
    [
        ("ethernet", 10 * GBIT, 1.0 * GBIT, True),
        ("ethernet", 10 * GBIT, 4.0 * GBIT, False),
        ("ethernet", 100 * GBIT, 4.0 * GBIT, False),  # one process that writes to sockets reaches no more
        ("InfiniBand", 400 * GBIT, 10.0 * GBIT, True),  # as where NCCL fell back to sockets
        ("NVLink", 478e9, 12e9, True),
        ("NVLink", 478e9, 60e9, False),
        ("loopback", 0.0, 0.01 * GBIT, False),  # nobody says what it gives
        (APART, 0.0, 0.01 * GBIT, False),
    ],
)
def test_a_single_link_is_measured_by_what_it_says(medium: str, gives: float, rate: float, named: bool) -> None:
    facts = [tried((0, 1), rate, medium, gives, again) for again in (False, True)]
    found = [*slow_pair.find(seen(*facts)), *slow_gpu_link.find(seen(*facts))]
    assert len(found) == named
    if named:
        assert found[0].ranks == (0, 1) and f"by {medium}, which says" in found[0].title


def test_a_pair_is_compared_with_its_own_kind_and_named_only_if_it_stays_slow() -> None:
    facts = [tried(pair, 1e9, "loopback") for pair in PAIRS[:3]] + [tried(pair, 1e7, APART) for pair in PAIRS[3:]]
    assert not list(slow_pair.find(seen(*facts)))
    facts = [tried(pair, 1e8 if pair == (1, 3) else 2e9, APART) for pair in PAIRS]
    assert not list(slow_pair.find(seen(*facts)))
    assert not list(slow_pair.find(seen(*facts, tried((1, 3), 9e8, APART, again=True))))
    (found,) = slow_pair.find(seen(*facts, tried((1, 3), 1.1e8, APART, again=True)))
    assert found.ranks == (1, 3) and "against 2.0 GB/s of the usual pair" in found.title


def test_a_rank_in_all_slow_pairs_is_named_once() -> None:
    facts = [tried(pair, 5e6 if 3 in pair else 5e7, APART) for pair in PAIRS]
    facts += [tried(pair, 5e6, APART, again=True) for pair in PAIRS if 3 in pair]
    (found,) = slow_pair.find(seen(*facts))
    assert found.ranks == (3,) and found.title.startswith("rank 3 with ranks 0-2: 5.0 MB/s by the network, against")
    assert "6 pairs by the network: " in render_collective_table(seen(*facts))


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("cluster", [4], indirect=True)
@pytest.mark.long
def test_a_host_whose_link_is_shaped_is_named_among_real_ranks(cluster: Cluster) -> None:
    cluster.hosts.do(
        2, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "16kb", "latency", "400ms"
    )
    words = ("--framework", "torch", "--largest", "1", "--rounds", "2", "--dtypes", "float32", "--limit", "240")
    ended = cluster.check(torch=True, what=("collectives", *words, "--meet", "node-0:29511"))
    (finding,) = [each for each in ended.report["findings"] if each["rule"] == "NET122"]
    assert finding["ranks"] == [2]
    assert "by the network, against" in finding["title"]
