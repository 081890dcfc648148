"""The scan: chunks, floods, wrapped lines, hostile bytes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.analyze.load_tables import known
from keepstep.model.facts.network import PortTaken
from keepstep.model.facts.process import ErrorSaid, ExceptionRaised
from keepstep.model.facts.training import StepSeen, StreamEnded
from keepstep.parse.scan import logscan
from keepstep.parse.scan.block import block
from keepstep.parse.scan.knowledge import build
from keepstep.parse.scan.lines.log_lines import held
from keepstep.parse.scan.logscan import LogScan
from keepstep.parse.scan.signature import signature

KNOWLEDGE = build((signature(r"Address already in use", PortTaken),), ())


def found(data: bytes, chunk: int | None = None, knowledge=KNOWLEDGE):
    chunks = [data] if chunk is None else [data[i : i + chunk] for i in range(0, len(data), chunk)]
    return [s for s in LogScan(knowledge).scan(chunks) if not isinstance(s.fact, StreamEnded | ErrorSaid)]


def test_line_numbers_count_from_one():
    assert [s.line for s in found(b"a\nAddress already in use\nb\nAddress already in use")] == [2, 4]


def test_a_hit_is_found_once_wherever_chunks_are_cut(monkeypatch):
    monkeypatch.setattr(logscan, "PIECE", 4096)
    monkeypatch.setattr(logscan, "MOST_PER_STREAM", 10**6)
    data = b"".join(b"line %d\n" % n + (b"x Address already in use\n" if n % 97 == 0 else b"") for n in range(5000))
    expected = [n + 1 for n, line in enumerate(data.split(b"\n")) if b"Address" in line]
    for size in (1000, 4096, 5000, 7777):
        assert [s.line for s in found(data, size)] == expected


def test_as_much_is_read_around_a_hit_however_little_of_the_pieces_is_joined(monkeypatch):
    lines = [*(f"2026-01-02 03:04:{n % 60:02d} step {n}" for n in range(900)), *TRACEBACK, "Address already in use"]
    data = ("\n".join(lines * 8) + "\n").encode()
    monkeypatch.setattr(logscan, "WRAPPED", 0)
    plain = found(data, knowledge=known())
    monkeypatch.setattr(logscan, "PIECE", 4096)
    monkeypatch.setattr(logscan, "BEHIND", 256)
    monkeypatch.setattr(logscan, "LONGEST_LINE", 256)
    assert found(data, knowledge=known()) == plain
    assert sum(isinstance(s.fact, ExceptionRaised) for s in plain) == 8


def test_a_signature_broken_over_two_lines_is_found():
    assert len(found(b"prefix Address already\nin use here\n")) == 1


def test_carriage_returns_of_progress_bars_do_not_hide_a_line():
    (hit,) = found(b"10%|#  |\r20%|## |\rAddress already in use\r30%|###|\n")
    assert hit.quote == "Address already in use"


def test_colours_are_taken_off():
    (hit,) = found(b"\x1b[31mAddress already in use\x1b[0m\n")
    assert hit.quote == "Address already in use"


def test_a_flood_keeps_the_first_and_the_last():
    data = b"Address already in use\n" * 200_000
    hits = found(data, 1 << 20)
    assert hits[0].line == 1
    assert len(hits) <= 2 * logscan.MOST_PER_STREAM
    assert hits[-1].line > 180_000


def test_a_line_without_end_is_read_in_bounded_memory():
    hits = found(b"x" * (9 << 20) + b" Address already in use " + b"y" * (9 << 20), 1 << 20)
    assert len(hits) == 1
    assert len(hits[0].quote) <= logscan.QUOTE


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 5, in main',
    '    x = cfg["lr"]',
    "KeyError: 'lr'",
)


@pytest.mark.parametrize(
    "before",
    [
        "> ",
        "10.3.35.83: ",
        "[2022-06-09T09:22:31.405194Z] 8de2ca81 || ",
        "I0718 14:02:57.560956 139711506118464 run_docker.py:180] ",
        "  | 2025-05-16T16:40:02.222-07:00 | ",
        "[36m(main_task pid=1)[0m ",
        "20/03/04 05:06:07 INFO PythonRunner: ",
        "2020-03-04 05:06:07,123 - INFO - ",
        "INFO|2018-01-26T13:26:02|/opt/launcher.py|27| ",
    ],
)
def test_a_traceback_is_read_behind_whatever_a_log_viewer_puts_before_each_line(before):
    data = "".join(f"{before}{line}\n" for line in TRACEBACK).encode()
    (raised,) = [s.fact for s in found(data, knowledge=known()) if isinstance(s.fact, ExceptionRaised)]
    assert (raised.type, raised.message, len(raised.frames)) == ("KeyError", "'lr'", 1)


def test_lines_of_two_hosts_are_not_mixed_into_one_traceback():
    lines = [f"10.0.0.{host}: {line}" for line in TRACEBACK for host in (1, 2)]
    raised = [
        s.fact for s in found("\n".join(lines).encode(), knowledge=known()) if isinstance(s.fact, ExceptionRaised)
    ]
    assert {len(fact.frames) for fact in raised} == {1}


def test_blocks_read_only_their_writers_lines():
    got = []

    def read(match, lines):
        got.extend(next(lines) for _ in range(2))
        return ()

    knowledge = build((), (block(r"BEGIN here", read),))
    list(LogScan(knowledge).scan([b"[rank0]: BEGIN here\n[rank1]: no\n[rank0]: one\n[rank1]: no\n[rank0]: two\n"]))
    assert got == ["one", "two"]


def test_the_last_words_of_each_writer_are_kept():
    sightings = LogScan(KNOWLEDGE).scan([b"[rank0]: a\n[rank1]: b\n[rank0]: c\n"])
    assert {(s.writer.rank, s.quote) for s in sightings} == {(0, "c"), (1, "b")}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000))
def test_no_bytes_make_the_scan_fail(data):
    list(LogScan(known()).scan([data]))


PIECES = st.sampled_from(
    [
        b"Traceback (most recent call last):\n",
        b'  File "a.py", line 3, in f\n',
        b"KeyError: 'x'\n",
        b"[rank1]: ",
        b"[1,0]<stderr>:",
        b"NCCL WARN ",
        b"\r",
        b"\n",
        b"\x1b[3",
        b"\xff\xfe",
        b"Fatal Python error: Segmentation fault\n",
        b"*** Process received signal ***\n",
        b"Current thread 0x1 (most recent call first):\n",
        b"Root Cause (first observed failure):\n",
        b"  exitcode  : -9 (pid: 1)\n",
        b"{" * 50,
        b"(" * 50,
        b"[" * 50,
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.binary(max_size=20)), max_size=60))
def test_no_mixture_of_beginnings_makes_the_scan_fail(parts):
    list(LogScan(known()).scan([b"".join(parts)]))


@pytest.mark.parametrize("text", [b"", b"\n", b"\n" * 1000, b"\x00" * 1000])
def test_nothing_gives_nothing(text):
    assert found(text) == []


@pytest.mark.parametrize("ending", [b"", b"x" * 6000, b"x" * 6000 + b"\n", b"step 7 of 9\n" * 500])
def test_the_end_of_a_log_is_read_alike_wherever_its_last_piece_begins(monkeypatch, ending):
    progress = (signature(r"step (?P<step>\d+) of", StepSeen),)
    data = b"".join(b"[rank%d]: step %d of 9000\n" % (n % 4, n) for n in range(8000)) + ending
    ends = []
    for piece in (1 << 20, len(data) - 1, len(data) - 5000, len(data) - 40_000, 70_000):
        monkeypatch.setattr(logscan, "PIECE", piece)
        ends.append([(s.fact, s.line, s.writer) for s in LogScan(build((), (), progress)).scan([data])])
    assert len(ends[0]) > 100
    assert all(each == ends[0] for each in ends)


def test_an_error_of_another_writer_above_a_traceback_is_not_its_logger():
    lines = b"LLVM ERROR: pthread_join failed\n[rank4]: Traceback (most recent call last):\n[rank4]: ValueError: no\n"
    (raised,) = [s.fact for s in found(lines, knowledge=known()) if isinstance(s.fact, ExceptionRaised)]
    assert not raised.logged
    (raised,) = [
        s.fact
        for s in found(lines.replace(b"LLVM ERROR", b"[rank4]: ERROR"), knowledge=known())
        if isinstance(s.fact, ExceptionRaised)
    ]
    assert raised.logged


def test_lines_that_end_as_on_windows_are_read_alike():
    lines = ["Address already", "in use here", *TRACEBACK, "after"]
    plain, windows = (found(end.join([*lines, ""]).encode(), knowledge=known()) for end in ("\n", "\r\n"))
    assert [(s.line, s.fact) for s in windows] == [(s.line, s.fact) for s in plain]
    assert any(isinstance(s.fact, ExceptionRaised) for s in windows)


def test_what_a_container_wrote_is_taken_out_of_the_json_of_docker():
    lines = ["step 1 loss 0.5", *TRACEBACK]
    said = [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2020-03-04T05:06:{n:02}.5Z"})
        for n, line in enumerate(lines)
    ]
    hits = found("\n".join(said).encode(), knowledge=known())
    (raised,) = [s for s in hits if isinstance(s.fact, ExceptionRaised)]
    assert (raised.fact.type, raised.fact.message, len(raised.fact.frames)) == ("KeyError", "'lr'", 1)
    (step,) = [s for s in hits if isinstance(s.fact, StepSeen)]
    assert (raised.at, step.at) == (1583298361.5, 1583298360.5)


@pytest.mark.parametrize("line", ['{"log":"a \\x"}', '{"log": 3}', '{"loss": 0.5}', "{"])
def test_what_only_looks_like_the_json_of_docker_stays_as_it_is(line):
    assert held(line) == line


def test_a_line_of_docker_that_was_cut_still_tells_what_was_said():
    assert held('{"log":"Address already in') == "Address already in"


@pytest.mark.parametrize(
    "before",
    [
        "2020-03-04T05:06:07.5Z stderr F ",
        "Wed Mar  4 05:06:07.5 2020[3]<stdout>:",
        "[2020-03-04T05:06:07.500000Z] 8de2ca81 [rank=3] || ",
        "2020-03-04 05:06:07.5 10.164.0.29 [3] ",
        "[rank3]: 2020-03-04 05:06:07.5 ",
    ],
)
def test_progress_has_the_time_that_stands_before_the_name_of_its_writer(before):
    steps = [
        s
        for s in found("".join(f"{before}step {n} loss 0.5\n" for n in range(5)).encode(), knowledge=known())
        if isinstance(s.fact, StepSeen)
    ]
    assert [s.at for s in steps] == [1583298367.5] * 5


def test_blocks_of_a_long_log_that_ends_its_lines_as_on_windows(monkeypatch):
    monkeypatch.setattr(logscan, "WRAPPED", 0)
    (hit,) = [
        s.fact
        for s in found("\r\n".join([*TRACEBACK, ""]).encode(), knowledge=known())
        if isinstance(s.fact, ExceptionRaised)
    ]
    assert (hit.type, hit.lines) == ("KeyError", 3)
