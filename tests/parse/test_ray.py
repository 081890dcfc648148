# SPDX-License-Identifier: Apache-2.0
"""What Ray says of its workers, nodes and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.analyze.why import explain_paths
from keepstep.core.facts.config import NotScheduled, WorldSizeConflict
from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import ConnectFailed, PeerLost, RendezvousTimeout
from keepstep.core.facts.platform import Preempted
from keepstep.core.facts.process import NativeAbort, ProcessExited, TaskNamed
from keepstep.core.facts.resource import DiskFull, OomKilled
from keepstep.core.facts.sync import CollectiveMismatch, RanksMissing
from keepstep.parse.tools.ray import workers as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "(raylet) file_system_monitor.cc:105: /dev/shm/ray/spill is over 95% full, available space: 0; capacity: 270374129664.",
            DiskFull,
        ),
        ("RuntimeError: Version mismatch: The cluster was started with:", VersionConflict),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", OomKilled),
        (
            "(raylet) [monitor] 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed",
            OomKilled,
        ),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.", PeerLost),
        (
            "The node with node id: 510c08b and address: 10.0.0.2 has been marked dead because the detector has missed",
            PeerLost,
        ),
        ("Failed to connect to GCS at address 10.0.0.1:6379", ConnectFailed),
        ("Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits", ProcessExited),
        (
            "/ray/build/arrow/cpp/src/plasma/client.cc:620 Check failed: object_entry != objects_in_use_.end() ",
            NativeAbort,
        ),
        ("Worker exit type: NODE_OUT_OF_MEMORY Worker exit detail: Task was killed", OomKilled),
    ],
)
def test_the_words_of_ray_are_read(text, kind):
    assert one(text, kind)


def test_guesses_of_ray_are_not_observations():
    text = "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage."
    assert facts(text) == []


@pytest.mark.parametrize(
    "text", ["Worker exit type: INTENDED_USER_EXIT", "INFO worker.py:1642 -- Started a local Ray instance."]
)
def test_ordinary_lines_say_nothing(text):
    assert facts(text) == []


FURTHER = [
    (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ProcessExited,
        {"signal": "SIGKILL"},
    ),
    (
        "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits with an exit code None. The worker may have exceeded K8s pod memory limits.",
        ProcessExited,
        {"signal": "SIGKILL"},
    ),
    (
        "(autoscaler +1m10s) Error: No available node types can fulfill resource request {'CPU': 60.0, 'GPU': 6.0}.",
        NotScheduled,
        {"asked": "{'CPU': 60.0, 'GPU': 6.0}"},
    ),
    (
        "TimeoutError: Placement group creation timed out. Make sure your cluster either has enough resources. resources requested by the placement group: [{'CPU': 2.0}]",
        NotScheduled,
        {"never": True},
    ),
    (
        "The worker group startup timed out after 30.0 seconds waiting for 8 workers.",
        NotScheduled,
        {"never": False},
    ),
    (
        "ValueError: placement group bundle index 6 is invalid. Valid placement group indexes: 0-4",
        WorldSizeConflict,
        {"expected": "6"},
    ),
    (
        "Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}.",
        NotScheduled,
        {"never": False},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), FURTHER)
def test_a_further_wording_is_read(text, kind, fields, read, holds):
    assert holds(read(table, text), kind, **fields)


NODES_AND_TRAIN = [
    ("The actor died because its node has died. Node Id: b157c93", PeerLost, {}),
    ("\tthe actor's node was preempted: spot instance reclaimed", Preempted, {"reason": "spot instance reclaimed"}),
    ("\tthe actor's node was terminated expectedly: received SIGTERM", Preempted, {"reason": "received SIGTERM"}),
    (
        "\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",
        PeerLost,
        {},
    ),
    (
        "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.3",
        PeerLost,
        {},
    ),
    ("The node (IP: 10.0.0.3, node ID: 9f) where this task was running crashed unexpectedly.", PeerLost, {}),
    ("The actor is dead because its owner has died. Owner Id: 01000000 Owner Ip address: 10.0.0.1", PeerLost, {}),
    (
        "Owner worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ProcessExited,
        {"signal": "SIGKILL"},
    ),
    ("1 worker(s) were killed due to the node running low on memory. Node ID: 5f", OomKilled, {}),
    (
        "Memory on the node (IP: 10.0.0.4, ID: ba65) where the task (task ID: d221, name=head, rank=0,, pid=4503, memory used=1.31GB) was "
        "running was 1927.05GB / 2015.56GB (0.956086), which exceeds the memory usage threshold of 0.95.",
        OomKilled,
        {"rank": 0, "pid": 4503},
    ),
    (
        "Memory on the node (IP: 10.0.0.4, ID: 4748) where the task (actor ID: 9e43, name=8szhVkWorkerDict_0:3:WorkerDict.__init__, "
        "pid=4100606, memory used=56.57GB) was running was 246.41GB / 251.54GB (0.979583)",
        OomKilled,
        {"rank": 3, "pid": 4100606},
    ),
    ("    ray.get(helper_pg.ready(), timeout=1000)", NotScheduled, {"asked": "a placement group"}),
    (
        "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
        RendezvousTimeout,
        {"where": "remote call"},
    ),
    (
        "ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available to read. ObjectID: 00",
        RendezvousTimeout,
        {"where": "remote call"},
    ),
    (
        "The actor is not schedulable: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more",
        NotScheduled,
        {},
    ),
    ("The actor 1f is unavailable: RpcError. The task may or may not have been executed on the actor.", PeerLost, {}),
    (
        "ValueError: Failed to look up actor with name 'a1WorkerDict_0:0_register_center'. This could because",
        PeerLost,
        {},
    ),
    (
        "The following ranks have not joined the collective operation: [1, 3]",
        RanksMissing,
        {"missing": (1, 3), "final": True},
    ),
    (
        "The workers have been waiting for 60.01 s for the following ranks to join the `ray.train.report` call: [0].",
        RanksMissing,
        {"missing": (0,), "final": False},
    ),
    (
        "RuntimeError: Some workers returned results while others didn't. Make sure that `session.report()`",
        CollectiveMismatch,
        {},
    ),
    ("A worker health check has been hanging for 600.50 seconds. Marking the worker as dead.", PeerLost, {}),
    ("  distributed_context=DistributedContext(world_rank=3, world_size=8, local_rank=1", TaskNamed, {"rank": 3}),
    (
        "Training was interrupted by node preemption (preempted_ranks=[2, 3], drain_timed_out=False).",
        Preempted,
        {"rank": 2},
    ),
]


@pytest.mark.parametrize(("text", "kind", "fields"), NODES_AND_TRAIN)
def test_what_became_of_nodes_and_of_train_workers_is_read(text, kind, fields):
    fact = one(text, kind)
    assert {name: getattr(fact, name) for name in fields} == fields


@pytest.mark.parametrize(
    "text",
    [
        "The actor is dead because all references to the actor were removed.",
        "Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.",
        "    ray.get(worker.ready.remote(), timeout=10)",
    ],
)
def test_an_ordinary_end_and_what_follows_from_another_are_not_ends_of_a_worker(text):
    assert not [fact for fact in facts(text) if not isinstance(fact, PeerLost)]


def test_more_asked_for_than_there_is_comes_before_the_end_by_hand(tmp_path: Path) -> None:
    """As Ray's own torch_linear_example prints it on a machine of two cores, until somebody ends it."""
    (tmp_path / "driver.log").write_text(
        "2026-11-16 16:41:47,757\tWARNING insufficient_resources_manager.py:163 -- Ignore this message if the cluster is autoscaling."
        " Training has not started in the last 60 seconds. This could be due to the cluster not having enough resources available."
        " You asked for 3.0 CPUs and 0 GPUs, but the cluster only has 2.0 CPUs and 0 GPUs available. Stop the training and adjust the required resources\n"
        "*** SIGTERM received at time=1794847379 on cpu 1 ***\n"
    )
    root = explain_paths([tmp_path]).report.root
    assert root is not None
    assert (root.rule, root.title) == ("CFG008", "Ray could not provide what the run asked for: 3.0 CPUs and 0 GPUs")
