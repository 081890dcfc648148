# SPDX-License-Identifier: Apache-2.0
"""What Ray says of its workers, nodes and versions."""

from __future__ import annotations

import pytest

from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import ConnectFailed, PeerLost
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import OomKilled
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
