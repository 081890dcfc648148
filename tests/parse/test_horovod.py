# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from keepstep.core.facts.base import Fact
from keepstep.core.facts.config import ClusterSpecInvalid, RankVariableMissing, WorldSeen, WorldSizeConflict
from keepstep.core.facts.data import CorruptData, UnevenShards
from keepstep.core.facts.environment import LibraryMissing, SymbolMissing, UnsupportedCombination
from keepstep.core.facts.network import AddressMisled, ConnectFailed, InterfaceMissing, RendezvousTimeout
from keepstep.core.facts.resource import Contention
from keepstep.core.facts.sync import CollectiveMismatch, GroupShutDown, RanksMissing
from keepstep.parse.tools.trainers import horovod

STALL = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
    "for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit "
    "different tensors or that only subset of ranks is submitting tensors, which will cause deadlock. "
)


def stall(first: str, *following: str) -> list[Fact]:
    block = horovod.BLOCKS[0]
    match = block.begin.pattern.search(STALL + first)
    assert match is not None
    return list(block.read(match, iter(following)))


def test_the_stall_list_names_the_missing_rank_in_the_old_words() -> None:
    facts = stall("", "Stalled ops:grad_0 [missing ranks: 1]", "W x.cc:588] grad_1 [missing ranks: 1]")
    assert facts == [RanksMissing(missing=(1,), waited_s=60.0, what="stalled operation", final=False)]


def test_a_line_of_the_stall_list_alone_names_the_missing_rank(read) -> None:
    text = "training/SGD/DistributedSGD_Allreduce/HorovodAllreduce_training_SGD_gradients_AddN_100_0 [missing ranks: 2]"
    assert RanksMissing(missing=(2,), what="stalled operation", final=False) in read(horovod, text)


def test_the_stall_list_names_the_missing_rank_in_the_new_words() -> None:
    facts = stall("", "Missing ranks:", "2: [grad_0, grad_1 ...]")
    assert facts == [RanksMissing(missing=(2,), waited_s=60.0, what="stalled operation", final=False)]


def test_ready_ranks_tell_the_missing_one_by_the_gap() -> None:
    facts = stall("Stalled ops: grad_0 [ready ranks: 5, 6, 3, 1, 4, 0]")
    assert facts == [RanksMissing(missing=(2,), waited_s=60.0, what="stalled operation", final=False)]


def test_ranks_that_wait_in_different_tensors_are_a_mismatch() -> None:
    facts = stall("Stalled ops: loss [ready ranks: 3], grad [ready ranks: 2, 0, 1]")
    assert any(isinstance(fact, CollectiveMismatch) for fact in facts)


def test_mismatches_and_shutdowns_are_read() -> None:
    line = "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [2], but another rank sent a tensor of shape [3]."
    found = [fact for each in horovod.SIGNATURES if (fact := each.read(line))]
    assert (
        CollectiveMismatch(what="ALLREDUCE tensor shapes", left="tensor of shape [2]", right="tensor of shape [3]")
        in found
    )
    line = "Horovod has been shut down. This was caused by an exception on one of the ranks"
    assert GroupShutDown(how="Horovod has been shut down") in [each.read(line) for each in horovod.SIGNATURES]


WORDINGS = [
    (
        "NoValidAddressesFound: Horovod was unable to connect to horovod task service #1 on any of the following addresses: "
        "{'lo': [('127.0.0.1', 21318)], 'eno1': [('10.0.0.7', 21318)]}.",
        AddressMisled,
        {"address": "eno1 10.0.0.7"},
    ),
    (
        "Exception: Timed out waiting for tasks to start. Please check connectivity between servers.",
        RendezvousTimeout,
        {"where": "tasks to start"},
    ),
    (
        "Exception: Timed out waiting for Spark tasks to start. Please check that you have enough resources to run all",
        Contention,
        {},
    ),
    (
        "Timed out waiting for minimum number of slots to become available. Please check that you have enough resources",
        Contention,
        {},
    ),
    ("RuntimeError: Read data from KVStore server failed.", ConnectFailed, {}),
    (
        "Exception: No available network interface found matching user provided interface: eth9",
        InterfaceMissing,
        {"name": "eth9"},
    ),
    (
        "HorovodVersionMismatchError: Framework tensorflow installed with version 2.3.0 but found version 2.4.1.",
        SymbolMissing,
        {"library": "Horovod, built for tensorflow 2.3.0 (found 2.4.1)"},
    ),
    ("ImportError: Extension horovod.torch has not been built: x not found", LibraryMissing, {"name": "horovod.torch"}),
    ("ValueError: MPI support has not been built.  If this is not expected", LibraryMissing, {}),
    (
        "Exception: horovodrun convenience script does not find an installed OpenMPI.",
        LibraryMissing,
        {"name": "an MPI that horovodrun knows"},
    ),
    ("Exception: horovod does not find an installed MPI.", LibraryMissing, {}),
    ("Exception: horovodrun convenience script currently only supports Open MPI.", LibraryMissing, {}),
    ("Exception: horovod does not find the jsrun command.", LibraryMissing, {"name": "jsrun"}),
    (
        "Exception: Different slots in -hosts parameter are not supported in Intel(R) MPI.",
        ClusterSpecInvalid,
        {},
    ),
    ("Allgather is not supported with Join at this time.", UnsupportedCombination, {}),
    (
        "HostsError: Requested more processes (4) than there are available slots (2)",
        WorldSizeConflict,
        {"expected": "4", "seen": "2"},
    ),
    ("Invalid host input, please make sure it has format as : worker-0:2,worker-1:2.", ClusterSpecInvalid, {}),
    (
        "Could not determine process rank and size: only one of OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE found",
        RankVariableMissing,
        {"name": "OMPI_COMM_WORLD_RANK"},
    ),
    ("ValueError: No data found in training dataset: []", UnevenShards, {}),
    ("RuntimeError: Found 0 bytes in 10 rows; training dataset may be corrupted.", CorruptData, {}),
    (
        "Horovod initialized. Hostname n1, pid 12116, rank 0 / size 1, local rank 0 / local size 1.",
        WorldSeen,
        {"size": 1, "index": 0, "pid": 12116},
    ),
    (
        "Requested to allreduce, allgather, or broadcast a tensor with the same name as another tensor that is",
        CollectiveMismatch,
        {},
    ),
    (
        "ValueError: Number of node actors (2) must match num_hosts (4).",
        WorldSizeConflict,
        {"seen": "2", "expected": "4"},
    ),
    ("RuntimeError: Failed to execute discovery script: ./hosts.sh. Exit code: 127", ClusterSpecInvalid, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), WORDINGS)
def test_the_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(horovod, text), kind, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: Framework tensorflow installed with version 2.3.0 but found version 2.4.1.",
        "Initial Spark task registration is not complete: 1 of 3",
        "Horovod is a distributed training framework",
    ],
)
def test_a_near_miss_says_nothing(text, read):
    assert read(horovod, text) == []


def test_a_background_loop_that_ended_by_an_exception_shut_the_group_down(read):
    text = "[4]: Horovod background loop uncaught exception: Connection reset by peer"
    assert any(isinstance(fact, GroupShutDown) for fact in read(horovod, text))
