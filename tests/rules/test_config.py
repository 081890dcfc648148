# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.cluster import ClusterSeen, HostSeen, PortPrivileged
from keepstep.model.facts.config import (
    AddressIsLocal,
    DeviceShared,
    NotScheduled,
    ProcessesStarted,
    RankVariableMissing,
    WorldSeen,
    WorldSizeConflict,
)
from keepstep.model.facts.network import AddressMap, ConnectFailed, PeerAwaited, ServerStarted, Why
from keepstep.model.facts.platform import MemberRestarted
from keepstep.model.facts.training import StepSeen
from keepstep.model.finding import Confidence, Found
from keepstep.model.identity import Rank
from keepstep.model.rule import Rule
from keepstep.rules.config.announced_twice import announced_twice
from keepstep.rules.config.cluster_spec import cluster_spec
from keepstep.rules.config.localhost_address import localhost_address
from keepstep.rules.config.missing_rank_env import missing_rank_env
from keepstep.rules.config.more_ranks_than_devices import more_ranks_than_devices
from keepstep.rules.config.never_scheduled import never_scheduled
from keepstep.rules.config.port_privileged import port_privileged
from keepstep.rules.config.same_task_twice import same_task_twice
from keepstep.rules.config.trains_alone import trains_alone
from keepstep.rules.config.world_size_mismatch import world_size_mismatch


def asked(rule: Rule, *facts: tuple[int | None, Fact]) -> list[Found]:
    items = tuple(
        Evidence(
            fact=fact,
            origin=Origin(source=f"rank{rank}.log", line=line),
            rank=Rank(index=rank) if rank is not None else None,
        )
        for line, (rank, fact) in enumerate(facts, 1)
    )
    return list(rule.find(EvidenceSet(items=items)))


WAITS = (0, PeerAwaited(peer="/job:ps/replica:0/task:0"))


def addresses(job: str, *known: str) -> tuple[int | None, Fact]:
    return (0, AddressMap(job=job, addresses=known))


def test_a_task_that_prints_itself_as_localhost_is_normal() -> None:
    assert asked(localhost_address, addresses("worker", "localhost:2222", "10.0.0.2:2222"), WAITS) == []


def test_tasks_of_one_host_on_ports_of_their_own_are_normal() -> None:
    assert asked(localhost_address, addresses("worker", "localhost:2222", "localhost:2223"), WAITS) == []


def test_another_task_on_the_loopback_beside_real_addresses_is_told() -> None:
    facts = (addresses("ps", "127.0.0.1:2221", "10.0.0.3:1"), addresses("worker", "localhost:2222"), WAITS)
    (found,) = asked(localhost_address, *facts)
    assert "127.0.0.1:2221" in found.title


def test_two_tasks_on_one_loopback_port_cannot_be_one_host() -> None:
    facts = (addresses("ps", "127.17.0.3:8222"), addresses("worker", "localhost:8222"), WAITS)
    assert len(asked(localhost_address, *facts)) == 1


def test_ranks_on_one_device_are_named() -> None:
    (found,) = asked(cluster_spec, (0, DeviceShared(ranks=(0, 1), device="1000")))
    assert found.ranks == (0, 1)
    assert asked(world_size_mismatch, (0, DeviceShared(ranks=(0, 1), device="1000"))) == []


def test_a_device_that_does_not_exist_means_too_many_ranks() -> None:
    (found,) = asked(world_size_mismatch, (4, DeviceShared()))
    assert "rank 4" in found.title


def test_sizes_that_disagree_are_told_with_both_numbers() -> None:
    (found,) = asked(world_size_mismatch, (4, WorldSizeConflict(seen="rank 4", expected="4 ranks", what="ranks")))
    assert "rank 4 against 4 ranks" in found.title


def test_a_missing_variable_is_named() -> None:
    (found,) = asked(missing_rank_env, (None, RankVariableMissing(name="RANK")))
    assert found.title.startswith("RANK was not set")


def test_several_worlds_of_one_are_told_and_one_is_not() -> None:
    assert len(asked(trains_alone, (0, WorldSeen(size=1)), (1, WorldSeen(size=1)))) == 1
    assert asked(trains_alone, (0, WorldSeen(size=1))) == []
    assert asked(trains_alone, (0, WorldSeen(size=2)), (1, WorldSeen(size=1))) == []


def test_a_request_that_no_node_can_meet_is_a_conflict_of_sizes():
    found = asked(never_scheduled, (None, NotScheduled(by="Ray", asked="{'GPU': 6.0}")))
    assert "{'GPU': 6.0}" in found[0].title


def test_a_request_that_waits_is_no_conflict_of_sizes():
    assert asked(never_scheduled, (None, NotScheduled(by="Ray", never=False))) == []


def test_a_run_that_trained_got_what_it_asked_for():
    assert asked(never_scheduled, (None, NotScheduled(by="Ray")), (0, StepSeen(step=1))) == []


def test_a_fallback_to_the_loopback_alone_is_no_finding():
    assert asked(localhost_address, (0, AddressIsLocal(certain=False))) == []


def test_a_fallback_to_the_loopback_of_ranks_on_one_host_is_no_finding():
    dialled = ConnectFailed(why=Why.REFUSED, peer="127.0.0.1:29500")
    assert asked(localhost_address, (0, AddressIsLocal(certain=False)), (1, dialled)) == []


def test_a_fallback_to_the_loopback_is_a_hypothesis_where_another_host_was_missed():
    missed = ConnectFailed(why=Why.TIMED_OUT, peer="10.0.0.7:29500")
    found = asked(localhost_address, (0, AddressIsLocal(certain=False)), (1, missed))
    assert found[0].confidence is Confidence.HYPOTHESIS


def test_a_line_that_two_tables_read_announces_one_process():
    line = Origin(source="run.log", line=1)
    twice = [Evidence(fact=WorldSeen(index=1, size=2), origin=line) for _ in range(2)]
    assert list(announced_twice.find(EvidenceSet(items=tuple(twice)))) == []


def test_a_world_of_one_under_a_launcher_of_several_is_told() -> None:
    assert len(asked(trains_alone, (None, ProcessesStarted(count=4, by="mpirun")), (None, WorldSeen(size=1)))) == 1
    assert asked(trains_alone, (None, ProcessesStarted(count=4, by="mpirun")), (None, WorldSeen(size=4))) == []


def test_the_same_words_of_a_world_of_one_before_any_step_come_from_several_processes() -> None:
    assert len(asked(trains_alone, (None, WorldSeen(size=1)), (None, WorldSeen(size=1)))) == 1
    between = ((None, WorldSeen(size=1)), (None, StepSeen(step=1)), (None, WorldSeen(size=1)))
    assert asked(trains_alone, *between) == []


def test_a_loopback_address_that_refused_in_a_command_for_several_hosts_is_told() -> None:
    refused = (None, ConnectFailed(why=Why.REFUSED, peer="[localhost]:29500"))
    told = (None, AddressIsLocal(address="127.0.0.1", certain=False))
    assert len(asked(localhost_address, told, refused)) == 1


def test_two_servers_with_one_tasks_address_were_told_to_be_the_same_task() -> None:
    started = ServerStarted(address="10.0.0.1:2222")
    restarted = MemberRestarted(member="/job:worker/replica:0/task:0")
    (found,) = asked(same_task_twice, (0, started), (1, started), (0, restarted))
    assert found.ranks == (0, 1) and "10.0.0.1:2222" in found.title


def test_servers_that_say_localhost_or_trained_already_are_not_the_same_task() -> None:
    restarted = MemberRestarted(member="/job:worker/replica:0/task:0")
    local, started = ServerStarted(address="localhost:2222"), ServerStarted(address="10.0.0.1:2222")
    assert not asked(same_task_twice, (0, local), (1, local), (0, restarted))
    assert not asked(same_task_twice, (0, started), (0, StepSeen(step=3)), (1, started), (0, restarted))


def test_a_group_that_nobody_made_is_no_proof_of_a_missing_variable() -> None:
    (found,) = asked(missing_rank_env, (0, RankVariableMissing(name="the process group")))
    assert found.confidence is Confidence.SUPPORTED
    assert "this process had not created one" in found.title


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            "CFG006",
            "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:784, "
            "invalid usage, NCCL version 2.7.8\n",
        ),
        ("CFG009", "  what():  [gloo/transport/tcp/pair.cc:245] bind: Cannot assign requested address\n"),
    ],
)
def test_a_message_alone_makes_its_rule_fire(tmp_path: Path, rule: str, text: str) -> None:
    (tmp_path / "run.log").write_text(text)
    assert [f.rule for f in explain_paths([tmp_path]).report.findings][:1] == [rule]


def test_a_port_that_only_root_may_use_is_named_with_its_variable() -> None:
    (found,) = asked(port_privileged, (0, PortPrivileged(port=80, variable="TF_CONFIG")))
    assert "port 80" in found.title and "TF_CONFIG" in found.title


def test_more_ranks_on_a_host_than_it_has_devices_is_a_warning() -> None:
    def on(devices: int | None) -> list[Found]:
        four = ClusterSeen(said_by="torchrun", size=4, local_size=4)
        return asked(more_ranks_than_devices, (0, four), (0, HostSeen(name="n1", machine="m", accelerators=devices)))

    (found,) = on(2)
    assert "4 ranks on n1" in found.title and "2 GPUs" in found.title
    assert not on(4) and not on(None)


MISSED = (1, ConnectFailed(why=Why.TIMED_OUT, peer="the coordination service"))


def test_a_first_task_that_waits_at_a_loopback_address_is_told() -> None:
    waits, real = (0, PeerAwaited(peer="task:1")), (1, ServerStarted(address="10.0.0.2:2222"))
    (found,) = asked(localhost_address, (0, ServerStarted(address="127.0.0.1:2222")), real, waits, MISSED)
    assert (found.ranks, found.confidence) == ((1,), Confidence.SUPPORTED)


def test_a_server_that_every_release_calls_localhost_is_a_hypothesis() -> None:
    both = [(rank, ServerStarted(address=f"localhost:222{rank}")) for rank in (0, 1)]
    (found,) = asked(localhost_address, *both, (0, PeerAwaited(peer="task:1")), MISSED)
    assert found.confidence is Confidence.HYPOTHESIS


def test_a_loopback_address_where_the_tasks_met_is_no_finding() -> None:
    both = [(rank, ServerStarted(address=f"127.0.0.1:222{rank}")) for rank in (0, 1)]
    assert asked(localhost_address, *both, (0, PeerAwaited(peer="task:1"))) == []
    assert asked(localhost_address, both[1], MISSED) == []
