# SPDX-License-Identifier: Apache-2.0
"""torchrun's words about its workers."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import WorldSeen
from keepstep.core.facts.network import PeerLost, RendezvousClosed, RendezvousTimeout
from keepstep.core.facts.process import ProcessExited, TerminationRequested
from keepstep.parse.tools.torch import elastic as torch_elastic
from keepstep.parse.tools.torch.elastic import BLOCKS
from tests.parse.reading import reader

read = reader(torch_elastic)


SAID = [
    (
        "The worker fails with {0: ProcessFailure(local_rank=0, pid=54, exitcode=-7, error_file='<N/A>', error_file_data={})}",
        ProcessExited(reporter="torchrun", code=-7, signal="SIGBUS", local_rank=0, pid=54),
    ),
    (
        "E0213 09:37:20 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 97053) of binary: /opt/bin/python3.11",
        ProcessExited(reporter="torchrun", code=1, local_rank=0, pid=97053),
    ),
    (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 2 (pid: 11) of binary: python",
        ProcessExited(reporter="torchrun", code=-9, signal="SIGKILL", local_rank=2, pid=11),
    ),
    (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2978 closing signal SIGTERM",
        TerminationRequested(pid=2978, signal="SIGTERM", by="agent"),
    ),
    (
        "-- Process 1 terminated with the following error:",
        ProcessExited(reporter="torch.multiprocessing", rank=1, code=1, first=True),
    ),
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        RendezvousTimeout(where="rendezvous"),
    ),
    ("torch.distributed.elastic.rendezvous.api.RendezvousClosedError", RendezvousClosed()),
    (
        "The node 'b_2911_0' has failed to send a keep-alive heartbeat to the rendezvous 'test' due to an error of type "
        "RendezvousConnectionError.",
        PeerLost(how="rendezvous store gone (RendezvousConnectionError)"),
    ),
    (
        "The node 'b_2911_0' has failed to shutdown the rendezvous 'test' due to an error of type RendezvousConnectionError.",
        PeerLost(how="rendezvous store gone (RendezvousConnectionError)", final=False),
    ),
    (
        "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 309.246 seconds",
        PeerLost(how="another agent did not come to the exit barrier", final=False),
    ),
]


@pytest.mark.parametrize("text, fact", SAID)
def test_the_words_give_the_fact(text, fact):
    assert fact in read(text)


NEW = """\
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2023-05-01_00:00:00
  host      : node-b
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 123)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
[2]:
  time      : 2023-05-01_00:00:01
  host      : node-b
  rank      : 10 (local_rank: 2)
  exitcode  : -15 (pid: 124)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 124
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2023-05-01_00:00:00
  host      : node-b
  rank      : 8 (local_rank: 0)
  exitcode  : -9 (pid: 122)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 122
============================================================
"""

OLD = """\
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-08-23_15:06:04
  rank: 0 (local_rank: 0)
  exitcode: 1 (pid: 3287)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
Other Failures:
  <NO_OTHER_FAILURES>
***************************************
"""


def blocks(text):
    lines = text.splitlines()
    return [
        fact
        for number, line in enumerate(lines)
        for each in BLOCKS
        if (match := each.begin.pattern.search(line))
        for fact in each.read(match, iter(lines[number + 1 :]))
    ]


def test_the_failure_table_names_the_first_to_fail_and_the_others():
    facts = blocks(NEW)
    assert [(f.rank, f.code, f.first) for f in facts] == [(9, 1, False), (10, -15, False), (8, -9, True)]
    assert facts[-1].signal == "SIGKILL"
    assert facts[-1].node == "node-b"


def test_the_table_of_older_versions_is_read_too():
    assert [(f.rank, f.code, f.first) for f in blocks(OLD)] == [(0, 1, True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  global_ranks=[1]", [WorldSeen(index=1)]),
        (
            "\tworkers={'local_ranks': [0], 'global_ranks': [1], 'role_ranks': [1], 'world_size': 2, 'role_world_size': 2}",
            [WorldSeen(index=1, size=2)],
        ),
        ("  global_ranks=[8, 9, 10, 11]", []),
    ],
)
def test_an_agent_that_starts_one_worker_tells_whose_log_it_is(text, expected):
    assert [fact for fact in read(text) if isinstance(fact, WorldSeen)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "etcd.EtcdKeyNotFound: Key not found : /torch/elastic/store",
        "etcd.EtcdException: Bad response : 404 page not found",
    ],
)
def test_an_etcd_that_cannot_serve_the_rendezvous_is_told(text):
    assert [type(fact).__name__ for fact in read(text)] == ["UnsupportedCombination"]


def test_an_etcd_that_is_out_of_reach_is_told():
    said = "RendezvousConnectionError: The connection to etcd has failed. See inner exception for details."
    assert "ConnectFailed" in [type(fact).__name__ for fact in read(said)]


def test_a_key_that_never_came_into_etcd() -> None:
    (fact,) = read("LookupError: Key L3RvcmNo not found in EtcdStore")
    assert isinstance(fact, RendezvousTimeout)


def test_a_closing_signal_that_the_agent_was_sent_itself_is_not_its_own_choice() -> None:
    (fact,) = read("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 53738 closing signal SIGHUP")
    assert (fact.signal, fact.pid, fact.by) == ("SIGHUP", 53738, None)
    (fact,) = read(
        "W0217 08:19:10.679000 14 torch/distributed/elastic/multiprocessing/api.py:851] Sending process 37 closing signal SIGTERM"
    )
    assert (fact.signal, fact.by) == ("SIGTERM", "agent")
