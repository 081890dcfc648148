# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from keepstep.model.facts.sync import CollectiveProgress, RecordedCollective
from keepstep.parse.formats.flight_recorder import LAST, NotADump, looks_like_dump, rank_of, read

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"


def test_a_real_dump_of_torch_gives_its_collectives_in_order() -> None:
    facts = read((DATA / "behind" / "comm_lib_trace_rank_0").read_bytes())
    recorded = [f for f in facts if isinstance(f, RecordedCollective)]
    assert [f.seq for f in recorded] == [1, 2, 3, 4, 5, 6]
    last = recorded[-1]
    assert (last.op, last.state, last.sizes, last.dtype, last.members) == (
        "all_reduce",
        "scheduled",
        "[[4]]",
        "Float",
        (0, 1),
    )
    assert last.frame is not None and (last.frame.file, last.frame.function) == ("/job/train.py", "train_step")
    assert recorded[-2].state == "completed", "gloo leaves the state of retired entries as it was"
    assert CollectiveProgress(last_enqueued=6, last_completed=5, group="0") in facts


def test_a_json_dump_says_the_same() -> None:
    recorded = [f for f in read((DATA / "behind.json").read_bytes()) if isinstance(f, RecordedCollective)]
    assert [(f.seq, f.state) for f in recorded][-2:] == [(5, "completed"), (6, "scheduled")]


def test_dumps_of_torch_2_3_are_read() -> None:
    entry = {"record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 7, "p2p_seq_id": 0}
    entry |= {
        "profiling_name": "nccl:_all_gather_base",
        "state": "started",
        "input_sizes": [[3]],
        "output_sizes": [[6]],
    }
    dump = {
        "version": "2.2",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [entry],
    }
    (fact,) = read(pickle.dumps(dump, 2))
    assert isinstance(fact, RecordedCollective)
    assert (fact.seq, fact.op, fact.sizes, fact.state) == (7, "_all_gather_base", "[[3]] -> [[6]]", "started")


def test_only_the_last_entries_of_a_group_are_kept() -> None:
    entries = [{"collective_seq_id": n, "profiling_name": "nccl:all_reduce", "state": "completed"} for n in range(500)]
    facts = read(json.dumps({"pg_config": {}, "entries": entries}).encode())
    assert len(facts) == LAST
    assert isinstance(facts[-1], RecordedCollective) and facts[-1].seq == 499


class Evil:
    """Its pickle runs a command when loaded by pickle."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_hostile_pickle_does_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "ran"
    with pytest.raises(NotADump, match="run code"):
        read(pickle.dumps({"entries": [Evil(target)]}, protocol))
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02",
        b"\x80\x02}q\x00(X\xff\xff\xff\xff",
        b"\x80\x02r\xff\xff\xff\x7f.",
        b"\x80\x02]q\x00h\x00h\x00s.",
        b"\x80\x02(e.",
        b"\x80\x09.",
        b"\x80\x02\xff.",
        b"\x80\x02]h\x07.",
        b"{",
        b"[" * 100_000,
        b"",
        b"\x00" * 100,
        pickle.dumps([1, 2, 3], 2),
        json.dumps({"hello": 1}).encode(),
    ],
)
def test_junk_is_refused_in_plain_words(data: bytes) -> None:
    with pytest.raises(NotADump):
        read(data)


def test_every_truncation_of_a_real_dump_is_refused_or_read_without_a_crash() -> None:
    whole = (DATA / "behind" / "comm_lib_trace_rank_0").read_bytes()
    for size in range(0, len(whole) - 1, 7):
        with pytest.raises(NotADump):
            read(whole[:size])


def test_odd_values_in_a_dump_do_no_harm() -> None:
    odd = {
        "entries": [1, None, {"collective_seq_id": "x"}, {"collective_seq_id": 1, "profiling_name": 3}],
        "pg_config": [1],
    }
    assert read(pickle.dumps(odd, 2)) == []


@pytest.mark.parametrize(
    ("name", "head", "is_dump"),
    [
        ("nccl_trace_rank_0", b"\x80\x02}q\x00", True),
        ("model.pkl", b"\x80\x02}q\x00X\x05", False),
        ("anything", b"\x80\x02}q\x00X\x09\x00\x00\x00pg_config", True),
        ("dump.json", b'{"comm_lib_version":"","entries":[{"collective_seq_id":1', True),
        ("config.json", b'{"lr": 0.1}', False),
        ("nccl_trace_rank_0", b"plain text", False),
    ],
)
def test_dumps_are_recognised(name: str, head: bytes, is_dump: bool) -> None:
    assert looks_like_dump(name, head) is is_dump


@pytest.mark.parametrize(
    ("name", "rank"), [("nccl_trace_rank_3", 3), ("comm_lib_trace_rank_12", 12), ("nccl_trace_5", 5), ("x.json", None)]
)
def test_the_name_of_a_dump_tells_its_rank(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


def test_an_empty_file_with_the_name_of_a_dump_is_one_that_was_not_written() -> None:
    assert looks_like_dump("comm_lib_trace_rank_5", b"") and not looks_like_dump("rank5.log", b"")
    with pytest.raises(NotADump, match="empty"):
        read(b"")


def transfer(name: str, number: int, state: str = "completed", **more: object) -> dict[str, object]:
    """As ProcessGroupNCCL writes it; not tried with a real one."""
    entry = {"process_group": ("7", "pp"), "profiling_name": f"nccl:{name}", "p2p_seq_id": number, "is_p2p": True}
    return entry | {"collective_seq_id": 0, "state": state, **more}


def transfers(*entries: dict[str, object], config: object = None) -> list[tuple[object, ...]]:
    known = {"7": {"desc": "pp", "ranks": "[2, 6]"}} if config is None else config
    facts = read(json.dumps({"pg_config": known, "entries": entries}).encode())
    return [(f.op, f.between, f.members, f.seq, f.state) for f in facts if isinstance(f, RecordedCollective)]


def test_sends_and_recvs_are_numbered_between_the_two_global_ranks() -> None:
    entries = [transfer("send 0->1", 1), transfer("recv 0<-1", 2), transfer("send 0->1", 3, "started")]
    assert transfers(*entries) == [
        ("send 2->6", (2, 6), (2, 6), 0, "completed"),
        ("send 2->6", (2, 6), (2, 6), 1, "started"),
        ("recv 2<-6", (6, 2), (6, 2), 0, "completed"),
    ]


def test_calls_of_a_batch_end_as_the_batch_does() -> None:
    batch = [transfer("send 0->1", 4, "scheduled"), transfer("recv 0<-1", 4, "scheduled")]
    assert [each[-1] for each in transfers(*batch, transfer("coalesced", 4, "started"))] == ["started", "started"]
    assert [each[-1] for each in transfers(*batch, transfer("coalesced", 4))] == ["completed", "completed"]


def test_ranks_within_a_group_that_nobody_lists_are_not_guessed() -> None:
    assert transfers(transfer("send 0->1", 1), config={}) == []
    assert transfers(transfer("send 0->9", 1)) == []
    whole = transfer("send 0->1", 1, "started", process_group=("0", "default_pg"))
    assert transfers(whole, config={}) == [("send 0->1", (0, 1), (0, 1), 1, "started")]
