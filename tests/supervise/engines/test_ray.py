"""What `--on ray` asks of Ray and reads from it, as far as no cluster is needed."""

import importlib.util
import json
import os
import sys
import threading
import time

import pytest

from keepstep.errors import UserError
from keepstep.supervise.engines import ray_cluster
from keepstep.supervise.engines.choose import station_of
from keepstep.supervise.engines.nodes_asked_for import Wanted
from keepstep.supervise.engines.ray_agent import read_brief
from keepstep.supervise.engines.ray_cluster import RayNode, first_line, fitting, resources_of

has_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
ASKED = Wanted(on="ray", nodes="2", per_node=1, again=("--grace", "10", "--", "python", "train.py"))
BRIEF = {"run": "ray-1", "secret": "s" * 40, "host": "198.18.0.1", "port": 1234, "address": "198.18.0.2"}


def node(*, alive: bool = True, **has: float) -> RayNode:
    return RayNode(id="a", host="a", address="198.18.0.1", alive=alive, why="", has=has)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 5000, "is not JSON"),
        ("[1]", "is not an object"),
        ("{}", "is not an object"),
        ('{"CPU": "2"}', "CPU has no amount"),
        ('{"CPU": true}', "CPU has no amount"),
        ('{"CPU": 1e400}', "CPU has no amount"),
        ('{"GPU": 0}', "GPU must be more than 0"),
        ('{"GPU": -1}', "GPU must be more than 0"),
    ],
)
def test_resources_that_make_no_sense_are_refused_before_ray_is_asked(text, words, monkeypatch):
    monkeypatch.setattr(ray_cluster, "connect", lambda *_, **__: pytest.fail("Ray was asked"))
    with pytest.raises(UserError, match=words):
        station_of(Wanted(on="ray", nodes="2", resources=text, again=ASKED.again), {})


def test_resources_are_one_cpu_per_rank_and_one_gpu_where_enough_nodes_have_them():
    with_gpus, without = node(CPU=8, GPU=2), node(CPU=8)
    assert resources_of(None, 2, [with_gpus, with_gpus], 2) == {"CPU": 2, "GPU": 2}
    assert resources_of(None, 2, [with_gpus, without], 2) == {"CPU": 2}
    assert resources_of(None, 2, [with_gpus, node(alive=False, CPU=8, GPU=2)], 2) == {"CPU": 2}
    assert resources_of(None, 4, [with_gpus, with_gpus], 2) == {"CPU": 4}
    assert resources_of('{"CPU": 1, "big": 0.5}', 4, [with_gpus], 1) == {"CPU": 1, "big": 0.5}


def test_only_living_nodes_that_are_large_enough_count():
    seen = [node(CPU=4), node(CPU=1), node(alive=False, CPU=4), node(CPU=4, GPU=1)]
    assert fitting(seen, {"CPU": 2}) == 2
    assert fitting(seen, {"CPU": 2, "GPU": 1}) == 1


def test_without_ray_a_clear_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match="needs Ray") as caught:
        station_of(ASKED, {"RAY_ADDRESS": "198.18.0.1:6379"})
    assert "keepstep[ray]" in (caught.value.hint or "")


@has_ray
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no Ray cluster answers"),
        ("ray://127.0.0.1:10001", "too far away"),
        ("127.0.0.1:99999", "not HOST:PORT|no Ray cluster answers"),
    ],
)
def test_no_cluster_at_that_address_is_said_at_once(address, words):
    began = time.monotonic()
    with pytest.raises(UserError, match=words):
        station_of(ASKED, {"RAY_ADDRESS": address})
    assert time.monotonic() - began < 20


def test_a_private_function_that_ray_no_longer_has_is_no_trouble(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private.state", None)
    assert ray_cluster.draining() == {}


def test_of_what_ray_says_one_line_is_shown():
    class Wrapped(Exception):
        cause = RuntimeError("there is no folder /data here\nand much more")

    assert first_line(Wrapped("pages")) == "there is no folder /data here"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("x" * 5000))) == 300


def brief_from(line: bytes) -> dict[str, object] | None:
    read, write = os.pipe()
    threading.Thread(target=lambda: (os.write(write, line), os.close(write))).start()
    try:
        return read_brief(read)
    finally:
        os.close(read)


def test_the_actor_says_where_the_leader_is():
    assert brief_from(json.dumps(BRIEF).encode() + b"\nmore") == BRIEF


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"[]\n",
        b"{\n",
        b"\xff\n",
        b"x" * 20_000,
        json.dumps({**BRIEF, "port": "1"}).encode() + b"\n",
        json.dumps({**BRIEF, "secret": None}).encode() + b"\n",
    ],
)
def test_anything_else_is_no_brief(line):
    assert brief_from(line) is None
