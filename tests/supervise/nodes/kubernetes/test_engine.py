# SPDX-License-Identifier: Apache-2.0
"""What a pod's variables and name say about its place in the run, and with which status the run ends."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from keepstep.errors import UserError
from keepstep.supervise.decide.final_status import AS_IT_IS, Statuses
from keepstep.supervise.engines import kubernetes
from keepstep.supervise.engines.choose import engine_of
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.nodes.node_settings import Station

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KEEPSTEP_SECRET": "0123456789abcdef" * 4}
TWO = Wanted(nodes="2", per_node=4)


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch):
    """Gives this machine a pod's name and domain."""

    def give(short: str, domain: str = "") -> None:
        monkeypatch.setattr(socket, "gethostname", lambda: short)
        monkeypatch.setattr(socket, "getfqdn", lambda _: short + domain)

    return give


def station(wanted: Wanted = TWO, **env: str) -> Station:
    return kubernetes.station(wanted, {**POD, **env})


def test_the_pods_of_an_indexed_job_find_pod_0_by_its_stable_name(name, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(kubernetes, "connect", lambda _, host, port, __: called.append((host, port)))
    name("train-0", ".train.default.svc.cluster.local")
    first = station(JOB_COMPLETION_INDEX="0", POD_IP="10.1.0.5")
    name("train-1", ".train.default.svc.cluster.local")
    second = station(JOB_COMPLETION_INDEX="1")
    assert (first.call, first.listens, first.address) == (None, (None, 23400), "10.1.0.5")
    assert not first.first, "another pod 0 may have led before"
    assert second.call is not None
    second.call()
    assert called == [("train-0.train.default.svc.cluster.local", 23400)]
    assert first.run == second.run == "train-0"


def test_pods_beyond_the_nodes_are_spare(name) -> None:
    name("train-2", ".train.default.svc.cluster.local")
    found = station(replace(TWO, spare_nodes=1), JOB_COMPLETION_INDEX="2")
    assert (found.node, found.most, found.nodes) == (2, 2, 3)


def test_a_jobset_numbers_its_jobs_too(name, monkeypatch: pytest.MonkeyPatch) -> None:
    name("train-node-0-1", ".train.ml.svc.cluster.local")
    assert station(JOB_COMPLETION_INDEX="1").run == "train-node-0-0"


def test_kubeflow_says_how_many_nodes_there_are_and_where_the_first_is(name) -> None:
    told = {"PET_NNODES": "3", "PET_MASTER_ADDR": "train-node-0-0.train", "PET_MASTER_PORT": "29500"}
    name("train-node-0-2")
    third = station(Wanted(per_node=4), **told, PET_NODE_RANK="2", JOB_COMPLETION_INDEX="2")
    name("train-node-0-0")
    first = station(Wanted(per_node=4), **told, PET_NODE_RANK="0", JOB_COMPLETION_INDEX="0")
    assert (third.node, third.most, third.run) == (2, 3, "train-node-0-0") == (2, first.most, first.run)
    assert first.listens == (None, kubernetes.PORT), "not the port that the ranks use"


@pytest.mark.parametrize(
    ("wanted", "env", "words"),
    [
        (TWO, {}, "no index"),
        (Wanted(per_node=4), {"JOB_COMPLETION_INDEX": "0"}, "how many nodes"),
        (TWO, {"JOB_COMPLETION_INDEX": "2"}, "this is pod 2, but there are only 2 nodes"),
        (replace(TWO, spare_nodes=1), {"JOB_COMPLETION_INDEX": "3"}, "only 2 nodes and 1 spare one"),
        (TWO, {"JOB_COMPLETION_INDEX": "1", "KEEPSTEP_SECRET": ""}, "there is no secret"),
        (TWO, {"JOB_COMPLETION_INDEX": "1"}, "without a domain"),
        (Wanted(nodes="2", meet="a b"), {"JOB_COMPLETION_INDEX": "1"}, "not HOST:PORT"),
    ],
)
def test_what_is_missing_is_a_clear_line(name, wanted: Wanted, env: dict[str, str], words: str) -> None:
    name("train-1")
    with pytest.raises(UserError, match=words):
        station(wanted, **env)


def test_a_pod_whose_name_has_no_index_needs_to_be_told(name) -> None:
    name("some-host", ".train")
    with pytest.raises(UserError, match="does not say how to find pod 0"):
        station(JOB_COMPLETION_INDEX="1")
    assert station(Wanted(nodes="2", meet="leader.svc:5000"), JOB_COMPLETION_INDEX="1").run == "leader"


def test_a_pod_with_an_index_is_recognised_only_when_nodes_are_meant() -> None:
    indexed = {**POD, "JOB_COMPLETION_INDEX": "1"}
    assert engine_of(TWO, indexed) == "kubernetes"
    assert engine_of(Wanted(), indexed) is None
    assert engine_of(Wanted(nodes="2", node_rank=0, meet="a:1"), indexed) == "meet"
    assert engine_of(Wanted(nodes="2", node_rank=0, meet="a:1"), POD) == "meet"


def test_a_status_that_means_something_to_the_job_is_never_passed_on_by_chance() -> None:
    ours = Statuses(preempted=75, repeats=78)
    assert [ours.of_failure(status, repeats=False) for status in (1, 137, 75, 78)] == [1, 137, 1, 1]
    assert [ours.of_failure(status, repeats=True) for status in (1, 137, 75)] == [78, 78, 78]
    assert [AS_IT_IS.of_failure(status, repeats=True) for status in (1, 75, 78)] == [1, 75, 78]
