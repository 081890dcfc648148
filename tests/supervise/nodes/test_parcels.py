# SPDX-License-Identifier: Apache-2.0
"""Evidence from a node's folder to the leader's, whatever happens in between."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from keepstep.base.redact import redact
from keepstep.store.history.reader import open_history
from keepstep.store.history.writer import HistoryWriter
from keepstep.supervise.nodes.evidence import parcels, sent_log
from keepstep.supervise.nodes.evidence.parcels import MOST, PIECE, Receiver, Sender
from keepstep.supervise.nodes.messages import BadMessage, Parcel, decode, encode

PLENTY = 64 << 20
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
LINES = (
    "step 1 loss 0.5\n",
    f"export GITHUB_TOKEN={KEY}\n",
    "password:\n",
    "hunter2hunter2\n",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "MIIEpAIBAAKCAQEA7bq3\n",
    "-----END RSA PRIVATE KEY-----\n",
    "\x1b[31mred\x1b[0m caf\u00e9\n",
    "10%\r20%\r30%\n",
    "\n",
)

WHOLE = (*LINES[:2], "".join(LINES[2:4]), "".join(LINES[4:7]), *LINES[7:])
"""As programs print them: a secret over several lines in one go."""


def carried(sender: Sender, receiver: Receiver, *, most: int = PLENTY, ended: bool = False) -> int:
    """Send everything that is new, as messages. Returns how many there were."""
    count = 0
    for parcel in sender.parcels(most_bytes=most, ended=ended):
        line = encode(parcel)
        assert len(line) < 256 << 10
        found = decode(line)
        assert isinstance(found, Parcel)
        receiver.take(found)
        count += 1
    return count


def parcel(name: str = "rank0.log", offset: int = 0, data: bytes = b"words\n") -> Parcel:
    return Parcel(attempt=0, name=name, offset=offset, data=base64.b64encode(zlib.compress(data)).decode())


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "node" / "guard").mkdir(parents=True)
    return tmp_path / "node"


def test_a_folder_arrives_as_it_is_and_nothing_is_sent_twice(node: Path, tmp_path: Path) -> None:
    (node / "rank0.log").write_bytes(b"one\ntwo \xff\n")
    (node / "exits.jsonl").write_text('{"fact": "ProcessExited"}\n{"half')
    (node / "guard" / ".rank0-7-0.exit").write_bytes(b"\x03\0\0\0")
    (node / "report.json").write_text("{}")
    (node / "recording-has-gaps").touch()
    sender, receiver = Sender(node, 3), Receiver(tmp_path / "leader")
    assert {each.attempt for each in sender.parcels(most_bytes=PLENTY)} == {3}
    sender.again()
    carried(sender, receiver, ended=True)
    there = tmp_path / "leader"
    assert (there / "rank0.log").read_bytes() == b"one\ntwo \xff\n"
    assert (there / "exits.jsonl").read_text() == '{"fact": "ProcessExited"}\n'
    assert (there / "guard" / ".rank0-7-0.exit").read_bytes() == b"\x03\0\0\0"
    assert (there / "recording-has-gaps").exists() and not (there / "report.json").exists()
    assert carried(sender, receiver, ended=True) == 0
    assert (there / "rank0.log").stat().st_mode & 0o077 == 0


def test_what_was_forgotten_or_replaced_on_the_node_is_so_at_the_leader(node: Path, tmp_path: Path) -> None:
    sender, receiver = Sender(node, 0), Receiver(tmp_path / "leader")
    (node / "stacks.jsonl").write_text("1\n")
    (node / "rank1.log").write_text("the first life of this worker\n")
    carried(sender, receiver, ended=True)
    (node / "stacks.jsonl").unlink()
    (node / "rank1.log").rename(tmp_path / "aside.log")
    (node / "rank1.log").write_text("second\n")
    carried(sender, receiver, ended=True)
    assert not (tmp_path / "leader" / "stacks.jsonl").exists()
    assert (tmp_path / "leader" / "rank1.log").read_text() == "second\n"


def test_secrets_never_leave_the_node_however_the_log_grows(node: Path, tmp_path: Path) -> None:
    sender, receiver = Sender(node, 0), Receiver(tmp_path / "leader")
    with (node / "rank0.log").open("ab", buffering=0) as log:
        for line in LINES:
            for piece in re.findall(r".{1,7}", line, re.DOTALL):
                log.write(piece.encode())
                for sent in list(sender.parcels(most_bytes=PLENTY)):
                    receiver.take(sent)
    carried(sender, receiver, ended=True)
    found = (tmp_path / "leader" / "rank0.log").read_bytes().decode()
    assert KEY not in found and "hunter2" not in found and "MIIEpA" not in found
    assert found == redact("".join(LINES))


def test_a_long_log_keeps_its_beginning_and_its_end(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_log, "HEAD", 1000)
    monkeypatch.setattr(sent_log, "BEFORE", 100)
    lines = [f"line {number} of many\n" for number in range(5000)]
    (node / "rank0.log").write_text("".join(lines))
    sender, receiver = Sender(node, 0), Receiver(tmp_path / "leader")
    carried(sender, receiver, most=10_000)
    found = (tmp_path / "leader" / "rank0.log").read_text().splitlines(True)
    gap = next(number for number, line in enumerate(found) if "bytes are missing here" in line)
    end = found[gap + 1 :]
    assert found[:gap] == lines[:gap] and end == lines[-len(end) :]
    assert 900 < len("".join(found[:gap])) <= 1000 and 9000 < len("".join(end)) <= 10_000
    missing = int(re.findall(r"\d+", found[gap])[0])
    assert missing == len("".join(lines)) - len("".join(found[:gap])) - len("".join(end))
    said = (tmp_path / "leader" / "left-out.jsonl").read_text()
    assert "rank0.log" in said and "stayed on its host" in said
    carried(sender, receiver, ended=True)  # there is time now: the rest
    assert (tmp_path / "leader" / "rank0.log").read_text() == "".join(lines)
    assert not (tmp_path / "leader" / "left-out.jsonl").exists()


def test_times_of_arrival_point_to_the_same_lines(node: Path, tmp_path: Path) -> None:
    lines = [*LINES, *(f"step {number}\n" for number in range(50))]
    text = "".join(lines).encode()
    (node / "rank0.log").write_bytes(text)
    marks, place = [], 0
    for number, line in enumerate(lines):
        place += len(line.encode())
        marks.append([place, float(number)])
    said = {"schema": "keepstep.arrivals/1", "logs": {"rank0.log": {"whole": True, "marks": marks}}}
    (node / "arrivals.json").write_text(json.dumps(said))
    carried(Sender(node, 0), Receiver(tmp_path / "leader"), ended=True)
    copy = (tmp_path / "leader" / "rank0.log").read_bytes()
    found = json.loads((tmp_path / "leader" / "arrivals.json").read_text())["logs"]["rank0.log"]["marks"]
    assert copy != text
    assert [copy[:place].count(b"\n") for place, _ in found] == [text[:place].count(b"\n") for place, _ in marks]


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    turns=some.lists(
        some.tuples(
            some.lists(some.sampled_from(WHOLE), max_size=30),
            some.sampled_from(["send", "send little", "reconnect", "wait", "new leader"]),
        ),
        max_size=12,
    ),
    head=some.integers(1, 400),
    tail=some.integers(100, 2000),
)
def test_any_growth_and_any_reconnect_gives_one_log(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    turns: list[tuple[list[str], str]],
    head: int,
    tail: int,
) -> None:
    """The copy is the redacted log, whole or without its middle, and its beginning is never lost."""
    monkeypatch.setattr(sent_log, "HEAD", head)
    monkeypatch.setattr(parcels, "HEAD", head)
    monkeypatch.setattr(parcels, "TAIL", tail)
    place = tmp_path_factory.mktemp("growth")
    node = place / "node"
    node.mkdir()
    log = node / "rank0.log"
    log.touch()
    sender, receiver = Sender(node, 0), Receiver(place / "leader")
    for lines, what in turns:
        with log.open("a") as stream:
            stream.write("".join(lines))
        if what == "new leader":
            receiver = Receiver(place / f"leader{len(os.listdir(place))}")
        if what in ("reconnect", "new leader"):
            half = list(sender.parcels(most_bytes=PLENTY))
            for sent in half[: len(half) // 2] if what == "reconnect" else []:
                receiver.take(sent)
            sender.again()
        if what != "wait":
            carried(sender, receiver, most=300 if what == "send little" else PLENTY)
    carried(sender, receiver, ended=True)
    clean = redact(log.read_bytes().decode()).encode()
    copy = receiver._folder / "rank0.log"
    found = copy.read_bytes() if copy.exists() else b""
    before, gap, after = found.partition(b"[keepstep: ")
    if not gap:
        assert found == clean
    else:
        after = after.partition(b" bytes are missing here]\n")[2]
        assert clean.startswith(before) and clean.endswith(after)
        assert len(before) <= head + 100 and len(after) <= 2 * tail + 300  # redacted lines may be longer


def test_what_a_worker_left_that_came_back_alone_arrives_beside_the_attempt(tmp_path: Path) -> None:
    aside, run = tmp_path / "room" / "lost", tmp_path / "run"
    for name, words in (("attempt-0-rank1-1", f"last words {KEY}\n"), ("attempt-1-rank1-1", "of another attempt\n")):
        (aside / name).mkdir(parents=True)
        (aside / name / "rank1.log").write_text(words)
    (aside / "attempt-0-rank1-1" / "rank1-7-0.notes.jsonl").write_text("{}\n")
    (tmp_path / "room" / "attempt-0" / "guard").mkdir(parents=True)
    (run / "attempt-0").mkdir(parents=True)
    carried(Sender(tmp_path / "room" / "attempt-0", 0), Receiver(run / "attempt-0" / "node1"), ended=True)
    assert sorted(path.name for path in (run / "lost").iterdir()) == ["attempt-0-rank1-1"]
    left = run / "lost" / "attempt-0-rank1-1"
    assert sorted(os.listdir(left)) == ["rank1-7-0.notes.jsonl", "rank1.log"]
    assert (left / "rank1.log").read_text().startswith("last words ") and KEY not in (left / "rank1.log").read_text()


@pytest.mark.parametrize(
    "name",
    ["../rank0.log", "/etc/passwd", "guard/../rank0.log", "guard/a/b.box", "manifest.json", "report.json", "", ".",
     "guard/", "rank0.log\n", "cores/rank0.core", "guard/.job", "node.json", "rank0.log\0", "RANK0.log",
     "lost/rank0.log", "lost/attempt-0-rank1-1/../rank1.log", "lost/attempt-0-rank1-1/exits.jsonl",
     "lost/attempt-0-rank1-1/a/rank1.log", "lost/../rank1.log"],
)  # fmt: skip
def test_only_files_of_an_attempt_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadMessage):
        Receiver(tmp_path / "leader").take(parcel(name))
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "bad",
    [
        parcel(offset=1),
        parcel(offset=-1),
        parcel(data=bytes(PIECE + 1)),
        parcel(data=bytes(200 << 20)),
        Parcel(attempt=0, name="rank0.log", offset=0, data="no base64!"),
        Parcel(attempt=0, name="rank0.log", offset=0, data="AAAA"),
        Parcel(attempt=0, name="rank0.log", offset=0, data="\u00e9"),
        Parcel(attempt=0, name="rank0.log", offset=0, data=base64.b64encode(zlib.compress(b"cut")[:-2]).decode()),
    ],
    ids=["ahead", "negative", "large", "bomb", "text", "no zlib", "not ascii", "cut off"],
)
def test_a_bad_piece_is_refused_and_writes_nothing(tmp_path: Path, bad: Parcel) -> None:
    with pytest.raises(BadMessage):
        Receiver(tmp_path / "leader").take(bad)
    assert not list(tmp_path.rglob("*"))


def test_one_node_cannot_fill_the_leaders_disk(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "leader")
    receiver._sizes = {f"rank{number}.log": MOST // 8 for number in range(8)}
    receiver.take(parcel("rank9.log", data=bytes(PIECE)))
    with pytest.raises(BadMessage, match="more than"):
        receiver.take(parcel("rank9.log", PIECE, bytes(PIECE)))


def test_links_in_the_leaders_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    leader = tmp_path / "leader"
    leader.mkdir(mode=0o700)
    (leader / "rank0.log").symlink_to(outside / "precious")
    (leader / "guard").symlink_to(outside)
    receiver = Receiver(leader)
    receiver.take(parcel("rank0.log"))
    receiver.take(parcel("guard/rank0-7-0.notes.jsonl"))
    assert receiver.full
    assert (outside / "precious").read_text() == "mine" and os.listdir(outside) == ["precious"]
    receiver.take(parcel("rank1.log"))
    assert (leader / "rank1.log").read_bytes() == b"words\n"


def test_history_and_notes_travel_while_ranks_run(node: Path, tmp_path: Path) -> None:
    sender, leader = Sender(node, 0), tmp_path / "attempt-0" / "node3"
    leader.parent.mkdir()
    receiver, writer = Receiver(leader), HistoryWriter(node, "b")
    (node / "rank0.log").write_text("not yet\n")
    note = node / "guard" / "rank5-77-1.notes.jsonl"
    for second in range(1, 25):
        writer.add(1_794_990_000.0 + second, {5: {"step": float(second)}})
        with note.open("a") as stream:
            stream.write(f'{{"second": {second}}}\n')
        for each in sender.so_far():
            receiver.take(each)
    history = open_history(tmp_path)
    assert history.ranks == [5] and history.last(5)["step"][0] == 24.0
    assert (leader / "guard" / note.name).read_bytes() == note.read_bytes()
    assert not (leader / "rank0.log").exists()
    assert carried(sender, receiver, ended=True)
    assert (leader / "rank0.log").exists() and open_history(tmp_path).last(5)["step"][0] == 24.0
