# SPDX-License-Identifier: Apache-2.0
"""What Spark, YARN and TensorFlowOnSpark say of executors and reservations."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import DuplicateMember, NotScheduled, WorldSizeConflict
from keepstep.core.facts.network import PeerLost, PortTaken, RendezvousTimeout
from keepstep.core.facts.platform import Preempted
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import Contention, OomKilled
from keepstep.core.facts.sync import RanksMissing
from keepstep.parse.tools.spark import executors as table

WORDINGS = [
    (
        "Lost executor 9 on n21: Container killed by YARN for exceeding memory limits. 7.2 GB of 4.2 GB virtual memory used.",
        OomKilled,
        {"by": "YARN", "limit": "4.2 GB"},
    ),
    ("Container [pid=2934] is running beyond physical memory limits. Current usage: 4.5 GB", OomKilled, {"by": "YARN"}),
    ("Container marked as failed: c_1 on host: n1. Exit status: -104. Diagnostics: ", OomKilled, {"by": "YARN"}),
    ("Container marked as failed: c_1 on host: n1. Exit status: -100. Diagnostics: ", Preempted, {"by": "YARN"}),
    ("Container killed on request. Exit code is 137", ProcessExited, {"signal": "SIGKILL"}),
    ("ExecutorLostFailure Reason: Remote RPC client disassociated. Likely due to containers", PeerLost, {}),
    ("Exception: timed out waiting for reservations to complete", RendezvousTimeout, {}),
    ("Exception: Duplicate worker/task in cluster_info", DuplicateMember, {}),
    ("WARNING Unable to find available GPUs: requested=1, available=0", Contention, {}),
    ("Exception: No executor_id file found on this node, please ensure that:", WorldSizeConflict, {}),
    (
        "WARN DAGScheduler: Barrier stage in job 0 requires 4 slots, but only 2 are available. Will retry up to 40 more times",
        NotScheduled,
        {"by": "Spark", "never": False},
    ),
    ("does not allow run a barrier stage that requires more slots than the total number", WorldSizeConflict, {}),
    ("Exception: Timeout while feeding partition", RanksMissing, {"missing": ()}),
    ("Exception: Reservation server unable to bind to any ports, port_list = [1]", PortTaken, {}),
    ("Exception: Unable to find 2 free GPU(s)", Contention, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "INFO (MainThread-10731) waiting for 2 reservations",
        "Container marked as failed: c_1 on host: n1. Exit status: 0. Diagnostics: ",
        "Container killed on request. Exit code is 143",
        "WARN TaskSchedulerImpl: Initial job has not accepted any resources; check your cluster UI",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(table, text) == []
