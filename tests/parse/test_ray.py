# SPDX-License-Identifier: Apache-2.0
"""What Ray says of its workers, nodes and versions."""

from __future__ import annotations

import pytest

from keepstep.core.facts.config import NotScheduled, WorldSizeConflict
from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import ConnectFailed, PeerLost
from keepstep.core.facts.process import NativeAbort, ProcessExited
from keepstep.core.facts.resource import DiskFull, OomKilled
from keepstep.parse import ray as table


def facts(text: str) -> list[object]:
    return [fact for each in table.SIGNATURES if (fact := each.read(text)) is not None]


def one(text: str, kind: type) -> object:
    return next(fact for fact in facts(text) if isinstance(fact, kind))


def test_every_pattern_compiles() -> None:
    assert all(each.pattern for each in table.SIGNATURES)


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
        ("/ray/build/arrow/cpp/src/plasma/client.cc:620 Check failed: object_entry != objects_in_use_.end() ", NativeAbort),
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
