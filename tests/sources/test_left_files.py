"""Finding and reading what a run left, whatever state it is in."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
import zstandard

from keepstep.model.evidence import CoverageState
from keepstep.sources.files.file_search import find_files
from keepstep.sources.files.left_files import Chunks, FileKind, LeftFile

TEXT = b"".join(b"line %d\n" % n for n in range(200_000))


def read(left: LeftFile) -> tuple[bytes, str | None]:
    chunks = Chunks(left)
    return b"".join(chunks), chunks.problem


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.log", lambda data: data),
        ("a.log.gz", gzip.compress),
        ("a.log.gz", lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:])),
        ("a.log.zst", zstandard.compress),
        ("a.log.bz2", bz2.compress),
        ("a.log.xz", lzma.compress),
        ("misnamed.log", gzip.compress),
    ],
)
def test_plain_and_packed_files_read_the_same(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(TEXT))
    (left,) = find_files([tmp_path / name]).files
    assert read(left) == (TEXT, None)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_truncated_archive_is_read_as_far_as_it_goes(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(os.urandom(400_000).hex().encode())[:-2000])
    (left,) = find_files([tmp_path / "a"]).files
    data, problem = read(left)
    assert len(data) > 0
    assert problem is not None
    assert "truncated" in problem


def test_a_folder_is_walked_in_natural_order_and_code_is_left_out(tmp_path):
    for name in ("rank10.log", "rank2.log", "train.py", "model.pt"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "log").write_text("x\n")
    assert [left.name for left in find_files([tmp_path]).files] == ["rank2.log", "rank10.log"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"hidden_size": 768, "architectures": ["Bert"]}'),
        ("package.json", '{\n  "name": "trainer",\n  "scripts": {"test": "grep \\"CUDA out of memory\\" out"}\n}\n'),
        ("all_results.json", '{"eval_loss": NaN,\n "epoch": 3.0}\n'),
        ("vocab.json", '{"message": 17, "' + '": 1, "'.join(f"word{n}" for n in range(20_000)) + '": 2}'),
        ("train.json", '[\n  {"instruction": "what is CUDA out of memory?", "output": "..."}\n]\n'),
        ("empty.json", "{}\n"),
        ("special_tokens.json", '["<s>", "</s>"]'),
    ],
)
def test_a_json_document_beside_the_logs_is_not_a_log_unless_it_is_named(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / "rank0.log").write_text("x\n")
    assert [left.name for left in find_files([tmp_path]).files] == ["rank0.log"]
    assert [left.name for left in find_files([tmp_path / name]).files] == [name]


@pytest.mark.parametrize(
    "text",
    [
        '{"log":"RuntimeError: CUDA out of memory\\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}\n' * 3,
        '{"log":"Killed\\n","stream":"stderr"}\n',
        '{"loss": 2.1, "step": 1}\n{"loss": 2.0, "step": 2}\n',
        '{\n  "severity": "ERROR",\n  "textPayload": "Killed"\n}\n',
        '[\n {"textPayload": "Killed", "severity": "ERROR"}\n]\n',
        '{"apiVersion": "v1", "kind": "List", "items": []}\n',
        '{"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "..."}}}',
        '{"lr": 0.1}\nstep 1 loss 2.0\n',
        "[rank0]: RuntimeError: boom\n",
        "[1,0]<stderr>: boom\n",
        "[2026-01-01 00:00:00] INFO start\n",
        "{'loss': 2.1, 'epoch': 1.0}\n",
        '{"lr": 0.1, "cut": "off by a crash',
    ],
)
def test_json_that_reports_something_is_read_as_a_log(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert [left.kind for left in find_files([tmp_path]).files] == [FileKind.LOG]


def test_link_loops_end(tmp_path):
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    found = find_files([tmp_path])
    assert [left.name for left in found.files] == ["a.log"]


def test_binary_junk_is_said_when_asked_for(tmp_path):
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 40)
    found = find_files([tmp_path / "junk"])
    assert found.files == []
    assert found.coverage[0].state is CoverageState.NOT_CHECKED


def test_a_path_that_is_not_there_is_named(tmp_path):
    assert find_files([tmp_path / "nothing"]).missing == [str(tmp_path / "nothing")]


def test_equal_names_of_two_folders_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.log").write_text("x\n")
    names = [left.name for left in find_files([tmp_path / "a" / "x.log", tmp_path / "b" / "x.log"]).files]
    assert len(set(names)) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_said(tmp_path: Path):
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "a.log").chmod(0)
    assert find_files([tmp_path]).coverage[0].state is CoverageState.UNAVAILABLE


def test_an_elf_core_is_told_from_an_elf_program(tmp_path):
    head = b"\x7fELF\x02\x01\x01" + b"\x00" * 9
    (tmp_path / "core").write_bytes(head + b"\x04\x00" + b"\x00" * 100)
    (tmp_path / "program").write_bytes(head + b"\x02\x00" + b"\x00" * 100)
    assert [(left.name, left.kind) for left in find_files([tmp_path]).files] == [("core", FileKind.CORE)]
