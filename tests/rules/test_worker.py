# SPDX-License-Identifier: Apache-2.0
"""Workers and parameter servers that were lost or restarted."""

from __future__ import annotations

from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.base import Fact
from keepstep.model.facts.network import ConnectFailed, Why
from keepstep.model.facts.platform import MemberRestarted, ParameterServerAsked, ParameterServerLost
from keepstep.model.facts.training import CheckpointSaved, StepSeen
from keepstep.model.finding import Found
from keepstep.model.identity import Rank
from keepstep.model.rule import Rule
from keepstep.rules.worker.parameter_server_lost import parameter_server_lost
from keepstep.rules.worker.restarted_or_incarnation_mismatch import restarted_or_incarnation_mismatch
from tests.rules.explained import causes, findings


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


def test_a_restarted_member_is_blamed_not_the_one_that_noticed() -> None:
    (found,) = asked(restarted_or_incarnation_mismatch, (0, MemberRestarted(member="/job:worker/task:3", rank=3)))
    assert found.ranks == (3,)


def test_a_server_that_was_never_reached_is_not_lost() -> None:
    refused = (0, ParameterServerLost(member="/job:ps/task:0", how="failed to connect to all addresses"))
    assert asked(parameter_server_lost, refused) == []
    assert len(asked(parameter_server_lost, (0, StepSeen(step=3)), refused)) == 1
    assert len(asked(parameter_server_lost, (0, ParameterServerAsked(number=0, answer_s=0.1)), refused)) == 1
    assert asked(parameter_server_lost, (0, ParameterServerAsked(number=1, answer_s=0.1)), refused) == []


def test_a_server_whose_connection_broke_is_lost() -> None:
    (found,) = asked(parameter_server_lost, (0, ParameterServerLost(member="/job:ps/task:1", how="Socket closed")))
    assert "/job:ps/task:1" in found.title


def test_a_handle_of_a_member_that_was_never_reached_tells_of_no_restart() -> None:
    gone = (0, MemberRestarted(sure=False))
    assert len(asked(restarted_or_incarnation_mismatch, gone)) == 1
    assert asked(restarted_or_incarnation_mismatch, (0, ConnectFailed(why=Why.FAILED)), gone) == []


def test_the_message_about_a_remote_target_names_the_server(tmp_path: Path) -> None:
    message = (
        "step 10 loss 0.5\n"
        "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped__X}} Socket closed\n"
        "Additional GRPC error information from remote target /job:ps/replica:0/task:0:\n"
    )
    (tmp_path / "run.log").write_text(message)
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.rule, found.cause.value) == ("WRK002", "worker.parameter_server_lost")
    assert "/job:ps/replica:0/task:0" in found.title


def test_the_server_is_the_process_that_had_started_at_the_address_that_is_refused_now(tmp_path: Path) -> None:
    chief = (
        "chief: step 60 loss 2.1\n"
        "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed\n"
        "Additional GRPC error information from remote target /job:ps/replica:0/task:0 while calling /tensorflow."
        "WorkerService/RecvTensor:\n"
        "E0000 00:00:1794889570.442955   16530 context.cc:911] Failed to remove function remotely due to failed to "
        "connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:16703: Failed to connect to remote host: "
        "Connection refused\n"
    )
    server = "I0000 00:00:1794889565.831261 1 grpc_server_lib.cc:467] Started server with target: grpc://127.0.0.1:{}\n"
    found = findings(tmp_path, rank0=chief, rank1=server.format(16702), rank2=server.format(16703))
    assert (found[0].cause.value, found[0].ranks) == ("worker.parameter_server_lost", (2,)), found[0]
    assert not any("Additional" in each.title for each in found), found


BOOTSTRAP = """\
w-7:1:1 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.2.17<0>
w-7:1:31 [0] include/socket.h:403 NCCL WARN Connect to 10.0.2.10<43871> failed : Connection refused
RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:518, unhandled system error, NCCL version 2.7.8
"""


def test_a_restarted_pod_that_is_refused_at_a_port_of_the_first_life_is_named(tmp_path):
    again = findings(tmp_path, log="kubelet: pod w-7 container pytorch restarted (restartCount=1)\n" + BOOTSTRAP)
    assert again[0].cause.value == "worker.restarted_or_incarnation_mismatch"


def test_a_refused_connection_without_a_restart_is_one_of_the_network(tmp_path):
    assert causes(tmp_path, log=BOOTSTRAP)[0] == "network.unreachable_or_firewall"


def test_a_connection_that_is_refused_long_after_the_restart_is_another_matter(tmp_path):
    steps = "".join(f"step {n} loss 2.{n}\n" for n in range(1, 9))
    log = "kubelet: pod w-7 container pytorch restarted (restartCount=1)\n" + steps + BOOTSTRAP
    assert "WRK004" not in {each.rule for each in findings(tmp_path, log=log)}


def test_what_a_lost_server_costs_is_said_by_the_last_checkpoint_before_it() -> None:
    def at(moment: float, fact: Fact) -> Evidence[Fact]:
        return Evidence(fact=fact, origin=Origin(source="coordinator"), at=moment)

    def saved(moment: float, step: int) -> Evidence[Fact]:
        return at(moment, CheckpointSaved(path="ckpt", step=step, size=1, took_s=0.1))

    lost = (at(1000.0, ParameterServerLost(member="/job:ps/task:0")), at(990.0, StepSeen()))
    (found,) = parameter_server_lost.find(
        EvidenceSet(items=(saved(900.0, 20), saved(960.0, 30), saved(1100.0, 40), *lost))
    )
    assert found.because.endswith("the last checkpoint was saved at step 30, 40 s before")
    (found,) = parameter_server_lost.find(EvidenceSet(items=lost))
    assert "checkpoint" not in found.because
    without_time: Evidence[Fact] = Evidence(
        fact=ParameterServerLost(how="Socket closed"), origin=Origin(source="coordinator")
    )
    (found,) = parameter_server_lost.find(EvidenceSet(items=(saved(900.0, 20), saved(960.0, 30), without_time)))
    assert found.because.endswith("the last checkpoint was saved at step 30")
    alive = at(1050.0, ParameterServerAsked(number=0, answer_s=0.002))
    (found,) = parameter_server_lost.find(EvidenceSet(items=(saved(900.0, 20), saved(1040.0, 30), alive, *lost)))
    assert found.because.endswith("the last checkpoint was saved at step 30")
    asked = (at(980.0, ParameterServerAsked(number=0, answer_s=0.002)), at(981.0, ParameterServerAsked(number=1)))
    (found,) = parameter_server_lost.find(EvidenceSet(items=(*asked, *lost)))
    assert found.because.endswith("it had answered within 2 ms")
    (found,) = parameter_server_lost.find(EvidenceSet(items=(*asked, at(990.0, ParameterServerAsked(number=0)), *lost)))
    assert found.because.endswith("it had answered within 2 ms, then no more")
