# SPDX-License-Identifier: Apache-2.0
"""Ray: workers, actors, raylets, the GCS, and Ray Train on top of them.

A dead worker's message lists guesses ("killed by SIGKILL by OOM killer", "ray stop",
"SIGSEGV"): they are not observations and make no fact. What Ray itself did (its memory
monitor killed a task, versions differ) does.
"""

from __future__ import annotations

import re

from keepstep.core.facts.environment import VersionConflict
from keepstep.core.facts.network import ConnectFailed, PeerLost, RendezvousTimeout, Why
from keepstep.core.facts.platform import Preempted
from keepstep.core.facts.process import ProcessExited
from keepstep.core.facts.resource import DiskFull, OomKilled, SharedMemoryExhausted
from keepstep.parse.signature import signature

_ENDS = {
    "SYSTEM_ERROR": 1,
    "NODE_OUT_OF_MEMORY": None,
    "INTENDED_SYSTEM_EXIT": 0,
    "INTENDED_USER_EXIT": 0,
    "USER_ERROR": 1,
}


def _worker_end(match: re.Match[str]) -> ProcessExited | OomKilled | None:
    kind = match["kind"]
    if kind == "NODE_OUT_OF_MEMORY":
        return OomKilled(by="Ray's memory monitor")
    code = _ENDS.get(kind)
    return ProcessExited(reporter="Ray", code=code) if code else None


SIGNATURES = (
    # versions
    signature(r"Version mismatch: The cluster was started with", VersionConflict, component="Ray or Python"),
    signature(
        r"Client (?P<component>Ray|Python) version (?P<here>[\d.\w]+)[^\n]{0,60}(?:does not match|doesn't match)[^\n]{0,40}?(?P<there>\d[\d.\w]+)",
        VersionConflict,
        anchors=("Client Ray version", "Client Python version"),
    ),
    signature(
        r"(?:ray|Ray) client and server are (?:running )?(?:incompatible|mismatched) versions",
        VersionConflict,
        component="Ray",
        anchors=("client and server are",),
    ),
    signature(
        r"Changing the (?P<component>Python|ray|Ray) version (?:between|is not allowed)",
        VersionConflict,
        anchors=("Changing the",),
    ),
    # host memory
    signature(r"Task was killed due to the node running low on memory", OomKilled, by="Ray's memory monitor"),
    signature(
        r"Ray killed this worker[^\n]{0,80}because it was the most recently scheduled task",
        OomKilled,
        by="Ray's memory monitor",
        anchors=("Ray killed this worker",),
    ),
    signature(r"\d+ Workers \(tasks / actors\) killed due to memory pressure", OomKilled, by="Ray's memory monitor"),
    signature(
        r"[Tt]he memory monitor (?:has )?killed", OomKilled, by="Ray's memory monitor", anchors=("memory monitor",)
    ),
    signature(r"OutOfMemoryError: Task was killed", OomKilled, by="Ray's memory monitor"),
    signature(r"More than \d+% of the memory on node \S+ is used", OomKilled, by="Ray's memory monitor"),
    signature(r"ray\.exceptions\.OutOfMemoryError", OomKilled, by="Ray's memory monitor"),
    signature(r"RayOutOfMemoryError", OomKilled, by="Ray's memory monitor"),
    # disk and object store
    signature(r"ray\.exceptions\.OutOfDiskError", DiskFull),
    signature(r"Object creation will fail if spilling is required", lambda match: None),
    signature(r"file_system_monitor[^\n]{0,80}over \d+% full", lambda match: None, anchors=("file_system_monitor",)),
    signature(r"(?:ray\.exceptions\.)?ObjectStoreFullError", SharedMemoryExhausted, path="/dev/shm"),
    # ends
    signature(r"Worker exit type: (?P<kind>[A-Z_]+)", _worker_end),
    signature(
        r"[Tt]he actor died unexpectedly before finishing this task",
        PeerLost,
        how="a Ray actor died",
        anchors=("actor died unexpectedly",),
    ),
    signature(r"The actor is dead because its worker process has died", PeerLost, how="a Ray worker died"),
    signature(
        r"[Aa] worker died or was killed while executing (?:a )?task",
        PeerLost,
        how="a Ray worker died",
        anchors=("worker died or was killed while executing",),
    ),
    signature(r"WorkerCrashedError", PeerLost, how="a Ray worker died"),
    signature(r"The actor is dead because its node has died", PeerLost, how="a Ray node died"),
    signature(
        r"[Tt]he node with (?:node id|client ID):? (?P<peer>\w+)[^\n]{0,200}has been marked dead",
        PeerLost,
        how="a Ray node was marked dead",
        anchors=("has been marked dead",),
    ),
    signature(r"(?P<how>this node manager has mistakenly been marked (?:as )?dead)", PeerLost),
    signature(
        r"(?P<how>The raylet (?:was|has) (?:killed|died|terminated)|[Rr]aylet (?:is terminated|died|crashed|exited unexpectedly))",
        PeerLost,
        anchors=("raylet was", "raylet has", "aylet is terminated", "aylet died", "aylet crashed", "aylet exited"),
    ),
    signature(
        r"Some Ray (?:sub)?processes (?:exited|died) unexpectedly|Ray processes died unexpectedly",
        PeerLost,
        how="Ray's own processes died",
        anchors=("processes exited unexpectedly", "processes died unexpectedly"),
    ),
    signature(
        r"NodeDiedError|ray\.exceptions\.LocalRayletDiedError",
        PeerLost,
        how="a Ray node died",
        anchors=("NodeDiedError", "LocalRayletDiedError"),
    ),
    signature(r"ray\.exceptions\.OwnerDiedError", PeerLost, how="the owner of an object died"),
    # the head
    signature(r"Failed to connect to GCS at address (?P<peer>[\w.:\-]+)", ConnectFailed, why=Why.FAILED),
    signature(r"Failed to connect to GCS within \d+ seconds", ConnectFailed, why=Why.TIMED_OUT, peer="Ray's GCS"),
    signature(
        r"[Uu]nable to connect to (?:GCS|Redis)(?: at (?P<peer>[\w.:\-]+))?",
        ConnectFailed,
        why=Why.FAILED,
        anchors=("nable to connect to GCS", "nable to connect to Redis"),
    ),
    signature(r"Could not find any running Ray instance", ConnectFailed, why=Why.FAILED, peer="a Ray cluster"),
    signature(
        r"ray client[^\n]{0,60}connection (?:timeout|timed out)",
        ConnectFailed,
        why=Why.TIMED_OUT,
        anchors=("ray client",),
    ),
    # Ray Train
    signature(r"WorkerGroupStartupTimeoutError", RendezvousTimeout, where="Ray Train"),
    signature(r"Timed out (?:while )?waiting for placement group", RendezvousTimeout, where="Ray Train"),
    signature(
        r"(?P<reason>expected termination|preempt\w*)[^\n]{0,40}: received SIGTERM",
        Preempted,
        by="Ray autoscaler",
        anchors=("received SIGTERM",),
    ),
)
