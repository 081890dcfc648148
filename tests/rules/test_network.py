# SPDX-License-Identifier: Apache-2.0
"""Causes between hosts."""

from __future__ import annotations

import json
from pathlib import Path

from keepstep.analyze.why import explain_paths
from keepstep.model.evidence import Evidence, EvidenceSet, Origin
from keepstep.model.facts.network import ConnectionStuck
from keepstep.model.finding import Finding
from keepstep.rules.network.no_answer import no_answer


def findings(folder: Path, text: str) -> tuple[Finding, ...]:
    (folder / "run.log").write_text(text)
    return explain_paths([folder]).report.findings


def root(folder: Path, text: str) -> Finding:
    return findings(folder, text)[0]


STEPS = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))
REFUSED = (
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [n0]:29500 "
    "(errno: 111 - Connection refused).\n"
)
NO_ROUTE = "h:1:2 [0] include/socket.h:409 NCCL WARN Net : Connect to 10.0.0.9<5426> failed : No route to host\n"


def test_no_route_to_a_peer_is_the_network(tmp_path):
    assert root(tmp_path, NO_ROUTE).cause.value == "network.unreachable_or_firewall"


def test_a_connection_that_failed_before_training_went_on_gives_nothing(tmp_path):
    text = "".join(f"[rank0]: {line}\n" for line in (NO_ROUTE + STEPS).splitlines())
    assert findings(tmp_path, text) == ()


def test_a_few_tries_that_failed_are_no_finding(tmp_path):
    assert findings(tmp_path, REFUSED) == ()


def test_an_address_of_a_container_bridge_is_the_wrong_interface(tmp_path):
    text = (
        "h:1:1 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n"
        "h:1:2 [0] include/socket.h:409 NCCL WARN Net : Connect to 172.17.0.1<5426> failed : Connection refused\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "network.wrong_interface"
    assert "docker0" in found.title


def test_a_name_that_does_not_resolve_is_told_with_the_name(tmp_path):
    found = root(tmp_path, "ssh: Could not resolve hostname node-7: Name or service not known\n")
    assert found.cause.value == "network.dns"
    assert "node-7" in found.title


def test_a_lost_peer_is_only_a_symptom_of_the_rank_that_ran_out_of_memory(tmp_path):
    text = (
        "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:10895\n"
        "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has\n"
    )
    causes = [f.cause.value for f in findings(tmp_path, text)]
    assert causes[0] == "resource.gpu_oom"
    assert "network.connection_reset_peer_died" in causes[1:]


def test_a_lost_peer_without_a_reason_names_the_peer(tmp_path):
    text = (
        "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
        "store by key '0', but store->get('0') got error: Connection reset by peer\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "network.connection_reset_peer_died"
    assert found.ranks == (0,)


def test_the_store_that_closes_at_a_healthy_end_gives_nothing(tmp_path):
    text = (
        STEPS + "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4, remote=[n0]:29500): "
        "Connection reset by peer\n"
    )
    assert findings(tmp_path, text) == ()


def test_a_failed_verb_is_rdma_and_explains_the_collectives_that_wait(tmp_path):
    text = (
        "h:1:2 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
        "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600100 milliseconds before timing out.\n"
    )
    found = root(tmp_path, text)
    assert found.cause.value == "network.rdma_ib"
    assert any(fix.command == "ulimit -l unlimited" for fix in found.fixes)


def test_members_that_did_not_come_are_counted(tmp_path):
    text = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n"
    found = root(tmp_path, text)
    assert found.cause.value == "network.unreachable_or_firewall"
    assert found.title.startswith("1 of 2")


def test_a_remote_call_that_ran_out_of_time_was_slow(tmp_path):
    (tmp_path / "rank0.log").write_text(
        "RuntimeError: RPC ran for more than set timeout (60000 ms) and will now be marked with an error\n"
    )
    assert explain_paths([tmp_path]).report.findings[0].cause.value == "network.timeout_slow"


def test_a_system_error_of_nccl_without_a_reason_is_still_told_as_one(tmp_path):
    (tmp_path / "rank0.log").write_text(
        "Traceback (most recent call last):\n"
        '  File "main.py", line 398, in <module>\n'
        "    main()\n"
        "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:272, unhandled system error\n"
    )
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.rule, found.confidence.value) == ("NET009", "hypothesis")


def test_an_address_that_a_peer_offered_and_none_can_reach_is_the_wrong_interface(tmp_path):
    text = (
        "[a][[9,1],1][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 10.9.8.0 failed: "
        "No route to host (113)\n"
    )
    found = root(tmp_path, text)
    assert found.rule == "NET051"
    assert "10.9.8.0" in found.title


def test_a_peer_that_an_elastic_run_got_over_is_no_finding(tmp_path):
    lost = (
        "[0]<stderr>:[x.cc:566] Read error [10.0.0.9]:21925: Connection reset by peer [gloo/transport/tcp/pair.cc:1]\n"
    )
    later = "".join(f"[0]<stdout>:step {n} loss 0.{n}\n" for n in range(10, 14))
    assert findings(tmp_path, lost + lost.replace("[0]", "[2]", 1) + later) == ()


def test_tries_that_failed_as_the_last_words_are_told(tmp_path):
    assert root(tmp_path, REFUSED * 2).cause.value == "network.unreachable_or_firewall"


def test_gloo_that_dials_the_hosts_own_entry_was_given_a_local_address(tmp_path):
    text = (
        "RuntimeError: [/work/third_party/gloo/gloo/transport/tcp/pair.cc:769] "
        "connect [127.0.1.1]:45733: Connection refused\n"
    )
    assert root(tmp_path, text).cause.value == "config.localhost_address"


def test_one_interface_with_two_sizes_is_the_mtu(tmp_path):
    text = "".join(
        f"{host}: 2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {size} qdisc mq state UP\n"
        for host, size in (("node1", 9000), ("node2", 1500))
    )
    assert root(tmp_path, text).cause.value == "network.mtu"
    assert findings(tmp_path, text.replace("9000", "1500")) == ()


def test_a_call_whose_deadline_passed_was_slow(tmp_path):
    text = "tensorflow.python.framework.errors_impl.DeadlineExceededError: Deadline Exceeded\n"
    assert root(tmp_path, text).cause.value == "network.timeout_slow"


def test_a_coordinator_that_missed_heartbeats_lost_a_peer(tmp_path):
    text = (
        "F external/xla/xla/pjrt/distributed/client.h:77] Terminating process because the coordinator detected "
        "missing heartbeats. This most likely indicates that another task died.\n"
    )
    assert root(tmp_path, text).cause.value == "network.connection_reset_peer_died"


def test_daemons_of_mpi_that_could_not_be_started_were_not_reached(tmp_path):
    text = "ORTE was unable to reliably start one or more daemons.\n"
    assert root(tmp_path, text).cause.value == "network.unreachable_or_firewall"


def test_a_coordinator_whose_name_is_unknown_is_the_name_service(tmp_path):
    text = "RuntimeError: Failed to recognize coordinator address my-job-slice-0.my-job\n"
    assert root(tmp_path, text).cause.value == "network.dns"


def test_gloo_that_fails_without_an_error_after_the_store_was_joined_has_the_wrong_interface(tmp_path):
    text = (
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n"
    )
    assert root(tmp_path, text).cause.value == "network.wrong_interface"


TIMED_OUT = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/srv/app/train.py", line {line}, in main\n'
    "[rank{rank}]:     dist.all_reduce(metrics)\n"
    "[rank{rank}]: RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 10000ms for recv "
    "operation to complete\n"
)


def ranks_that_timed_out(folder: Path, lines: tuple[int, ...]) -> Finding:
    for rank, line in enumerate(lines):
        (folder / f"rank{rank}.log").write_text(
            f"INFO rank={rank} process group is up: world size 2, torch 2.13.0\n"
            + TIMED_OUT.format(rank=rank, line=line)
        )
    return explain_paths([folder]).report.findings[0]


def test_ranks_that_all_waited_in_one_line_were_parted_by_the_network(tmp_path):
    found = ranks_that_timed_out(tmp_path, (89, 89))
    assert (found.rule, found.cause.value) == ("NET011", "network.unreachable_or_firewall")


def test_ranks_that_waited_in_different_lines_are_not_blamed_on_the_network(tmp_path):
    assert ranks_that_timed_out(tmp_path, (89, 112)).rule != "NET011"


SILENT = (
    "E1115 04:55:58.906835   19307 coordination_service.cc:1549] Use error polling to propagate the following error to "
    "all tasks: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "1\nThe tasks have crashed.\n"
)
UNANSWERED = (
    "F1115 04:55:37.063170   19333 client.h:80] Terminating process because the JAX distributed service detected fatal "
    "errors. absl::Status: DEADLINE_EXCEEDED: Deadline Exceeded\n\n"
    "RPC: /xla.coordination.CoordinationService/Heartbeat\n"
)


def two_logs(folder: Path, zero: str, one: str) -> Finding:
    (folder / "rank0.log").write_text(zero)
    (folder / "rank1.log").write_text(one)
    return explain_paths([folder]).report.findings[0]


def test_two_ranks_that_miss_each_others_heartbeats_were_both_alive(tmp_path):
    found = two_logs(tmp_path, SILENT, UNANSWERED)
    assert (found.rule, found.cause.value) == ("NET012", "network.unreachable_or_firewall")


def test_a_rank_that_is_told_of_its_own_silence_was_not_heard(tmp_path):
    found = two_logs(tmp_path, SILENT, SILENT)
    assert (found.rule, found.ranks) == ("NET012", (1,))


def test_a_rank_that_the_kernel_showed_stopped_was_not_cut_off(tmp_path):
    fields = {"pid": 7, "command": "python train.py", "state": "T"}
    note = {
        "fact": "ProcessSeen",
        "fields": fields,
        "origin": {"source": "pid 7"},
        "rank": {"index": 1},
        "quote": "state T",
    }
    (tmp_path / "rank1-7-0.notes.jsonl").write_text(json.dumps(note) + "\n")
    assert two_logs(tmp_path, SILENT, SILENT).rule != "NET012"


def test_a_rank_that_only_the_others_miss_may_have_died(tmp_path):
    found = two_logs(tmp_path, SILENT, "INFO step 40 loss 0.1\n")
    assert found.cause.value == "network.connection_reset_peer_died"


def test_a_system_error_of_nccl_within_one_process_is_not_the_network(tmp_path):
    text = (
        "InternalError: 2 root error(s) found.\n"
        "  (0) Internal:  NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.\n"
        "\t [[node NcclAllReduce (defined at train.py:2) ]]\n"
        "0 successful operations.\n"
    )
    assert root(tmp_path, text).cause.value == "resource.shm"
    assert (
        root(tmp_path, text.replace("NcclAllReduce", "CollectiveReduce")).cause.value
        == "network.unreachable_or_firewall"
    )


def test_a_rank_that_a_launcher_saw_end_first_is_not_a_riddle_of_the_network(tmp_path):
    text = (
        "[rank: 1] Child process with PID 23026 terminated with code 1. Forcefully terminating all other processes\n"
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff14\n"
    )
    found = root(tmp_path, text)
    assert (found.cause.value, found.ranks) == ("unknown.not_established", (1,))


EXIT_BARRIER = """\
ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 300.1 seconds
Traceback (most recent call last):
  File "/opt/torch/distributed/elastic/agent/server/api.py", line 906, in _exit_barrier
    store_util.barrier(
  File "/opt/torch/distributed/elastic/utils/store.py", line 31, in get_all
    data = store.get(f"{prefix}{idx}")
RuntimeError: Socket Timeout
"""


def test_an_agent_that_waited_for_slower_ones_to_end_is_no_finding(tmp_path):
    assert findings(tmp_path, STEPS + EXIT_BARRIER) == ()


def test_an_agent_that_does_not_come_when_a_worker_failed_is_gone(tmp_path):
    failed = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) "
        "local_rank: 0 (pid: 269) of binary: python3\n"
    )
    found = root(tmp_path, STEPS + failed + EXIT_BARRIER)
    assert found.cause.value == "network.connection_reset_peer_died"
    assert "agent" in found.because


WAITS = (
    "2018-03-02 08:5{n}:57.918293: I tensorflow/core/distributed_runtime/master.cc:221] "
    "CreateSession still waiting for response from worker: /job:ps/replica:0/task:0\n"
)


def test_a_peer_that_a_session_waited_for_again_and_again_is_named(tmp_path):
    found = root(tmp_path, "".join(WAITS.format(n=n) for n in range(4)))
    assert found.rule == "NET050"
    assert "/job:ps" in found.title and "never answered" in found.title


def test_a_peer_that_came_after_a_wait_is_no_finding(tmp_path):
    assert findings(tmp_path, WAITS.format(n=0) + STEPS) == ()


def test_a_live_connection_whose_packets_are_never_acknowledged_is_the_network():
    facts = (ConnectionStuck(peer="10.0.0.7:29500", tries=5, connecting=True), ConnectionStuck(peer="h:1", tries=2))
    items = tuple(Evidence(fact=fact, origin=Origin(source="ss")) for fact in facts)
    (found,) = no_answer.find(EvidenceSet(items=items))
    assert found.title == "10.0.0.7:29500 did not answer: 6 attempts to connect"
    assert found.fixes[0].command == "nc -vz 10.0.0.7 29500"


RESET = (
    "E0000 00:00:1795089531.431193 10125 ring_alg.cc:291] Aborting RingReduce with UNAVAILABLE: "
    "recvmsg:Connection reset by peer\n"
    "Additional GRPC error information from remote target /job:worker/replica:0/task:2 while calling "
    "/tensorflow.WorkerService/RecvBuf:\n"
)
NO_LEADER = (
    "E0000 00:00:1795089579.146154 10741 base_collective_executor.cc:252] BaseCollectiveExecutor::StartAbort "
    "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was "
    "preempted/died/restarted unexpectedly or this task is experiencing network issues.\n"
)


def test_a_rank_that_lost_another_one_is_not_the_one_that_went_away(tmp_path):
    says = {0: RESET, 1: NO_LEADER, 2: "", 3: RESET}
    for rank, text in says.items():
        begun = f"worker {rank}: 4 replicas, tensorflow 2.21.0\nworker {rank}: step 1 loss 2.5\n"
        (tmp_path / f"rank{rank}.log").write_text(begun + text)
    found = explain_paths([tmp_path]).report.findings[0]
    assert (found.cause.value, found.ranks) == ("network.connection_reset_peer_died", (2,))
