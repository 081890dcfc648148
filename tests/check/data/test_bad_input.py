# SPDX-License-Identifier: Apache-2.0
"""What must not end or fool the check: strange files, dead mounts, crashes of libraries, Ctrl-C, missing libraries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keepstep.check.data import process
from keepstep.check.data.find.recognise import named_kind
from keepstep.check.data.look import DataRequest, look_at_data
from keepstep.check.data.pool import ReaderPool
from keepstep.check.data.reading import read_unit
from keepstep.check.data.units import DataUnit, ReadRequest, UnitRead, looked_from, to_plain
from keepstep.cli.parser import run
from keepstep.errors import UserError
from keepstep.parse.formats.data.bad import Bad
from tests.check.data.files import kinds, looked, report_on, rules_of

LINES = b'{"a": 1}\n{"a": 2}\n'


def test_names_promise_formats() -> None:
    promised = {
        name: named_kind(name) for name in ("a.tfrecord-00001-of-00004", "b.jsonl.gz", "c.TAR", "d.tar.zst", "e")
    }
    assert promised == {
        "a.tfrecord-00001-of-00004": "tfrecord",
        "b.jsonl.gz": "jsonl",
        "c.TAR": "tar",
        "d.tar.zst": "tar",
        "e": "",
    }


def test_files_that_are_not_what_their_names_say(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(LINES)
    (tmp_path / "b.npy").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "c.tfrecord").write_bytes(b"<html>not found</html>")
    for name in ("a.parquet", "b.npy", "c.tfrecord"):
        assert kinds(looked(tmp_path / name)) == ["misnamed"], name


def test_a_folder_with_everything_strange_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "good.jsonl").write_bytes(LINES)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("nowhere")
    (folder / "loop").symlink_to(".")
    (folder / os.fsdecode(b"name-\xff\n.jsonl")).write_bytes(LINES + b"bad\n")
    (folder / ".hidden.jsonl").write_bytes(b"bad")
    (folder / "unknown").write_bytes(os.urandom(5000))
    report = report_on(folder)
    assert rules_of(report) == ["DAT301", "DAT307"]
    assert any("good" not in each.what and "not a regular file" in each.why for each in report.coverage)


def test_what_the_system_refuses_is_a_finding(tmp_path: Path) -> None:
    found = read_unit(DataUnit(str(tmp_path), str(tmp_path)), ReadRequest())
    assert found.unreadable


def test_a_file_that_changes_while_it_is_read_is_called_neither_good_nor_bad(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes((b'{"a": "' + b"x" * 100_000 + b'"}\n') * 120)

    def grow(read: int) -> None:
        with path.open("ab") as stream:
            stream.write(b'{"half')

    info = path.stat()
    found = read_unit(DataUnit(str(path), "", info.st_size, info.st_mtime_ns), ReadRequest(), grow)
    assert found.changed and not len(found.bad)


def test_results_survive_the_way_through_json() -> None:
    found = UnitRead("tar", 3, protected=True).broken(Bad("corrupt", "how", 1, 2, 3, 4, "part"))
    assert looked_from(json.loads(json.dumps(to_plain(found)))) == found
    with pytest.raises(ValueError, match="not a result"):
        looked_from({"format": 3})


def start_with(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do something first: a stand-in for a library that crashes, or for a mount that is dead."""
    first, _, rest = process.START.partition("; ")
    path, _, rest = rest.partition("; ")
    monkeypatch.setattr(process, "START", f"{first}; {path}; exec({code!r}); {rest}")


CRASH = """
import keepstep.check.data.reading as reading
import os, time
was = reading._read
def _read(source, unit, asked):
    if '-crash' in unit.path: os.abort()
    if '-wait' in unit.path: time.sleep(1000)
    if '-grow' in unit.path: held = bytearray(1 << 28); held[::4096] = b'x' * len(held[::4096]); time.sleep(1000)
    return was(source, unit, asked)
reading._read = _read
"""


def test_a_library_that_crashes_hangs_or_grows_costs_one_file_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with(CRASH, monkeypatch)
    names = ["1", "2-crash", "3", "4-wait", "5", "6-grow", "7"]
    units = []
    for name in names:
        (tmp_path / f"{name}.jsonl").write_bytes(LINES)
        units.append(DataUnit(str(tmp_path / f"{name}.jsonl"), str(tmp_path), len(LINES)))
    began = time.monotonic()
    pool = ReaderPool(2, ReadRequest(), wait_s=12, most_memory=200 << 20)
    results = {Path(unit.path).stem: looked for unit, looked, _ in pool.read(units) if unit and looked}
    assert time.monotonic() - began < 120
    assert sorted(results) == names
    assert [results[name].records for name in ("1", "3", "5", "7")] == [2] * 4
    assert "crashed on it (SIGABRT)" in results["2-crash"].bad.first[0].how
    assert "no answer for" in results["4-wait"].unreadable
    assert "of memory" in results["6-grow"].unread


def test_a_file_system_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_with(
        "import keepstep.check.data.find.walk as w, time; w.os.stat = lambda *a, **k: time.sleep(1000)", monkeypatch
    )
    seen = look_at_data(DataRequest(paths=(str(tmp_path),), wait_s=2))
    assert [type(e.fact).__name__ for e in seen.collected.evidence] == ["ShardUnreadable"]


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        look_at_data(DataRequest(paths=(str(tmp_path / "nothing"),)))


def test_a_missing_library_is_said_and_nothing_is_called_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_with("import sys; sys.modules['pyarrow'] = None", monkeypatch)
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    (tmp_path / "b.jsonl").write_bytes(LINES)
    report = report_on(tmp_path)
    assert report.exit_status == 3
    assert any("install pyarrow: pip install 'keepstep[data]'" in each.why for each in report.coverage)


def test_ctrl_c_keeps_what_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number:02d}.jsonl").write_bytes((b'{"a": "%d' % number + b"x" * 5000 + b'"}\n') * 600)
    command = [sys.executable, "-m", "keepstep", "check", "data", str(folder), "--manifest", str(tmp_path / "m")]
    process = subprocess.Popen([*command, "--jobs", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (tmp_path / "m").exists():
        time.sleep(0.05)
        if process.poll() is not None:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert "go on" in out + err
    done = len((tmp_path / "m").read_text().splitlines()) - 1
    assert 0 < done < 40
    again = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert again.returncode == 0, again.stdout
    assert f"{done} file" in " ".join(again.stdout.split())


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_bytes(LINES + b"bad\n")
    words = ["check", "data", str(tmp_path / "data"), "--no-manifest"]
    listed, cleaned = tmp_path / "q.json", tmp_path / "clean"
    status = run([*words, "--json", "--quarantine", str(listed), "--clean", str(cleaned)])
    document = json.loads(capsys.readouterr().out)
    assert (status, document["findings"][0]["rule"]) == (1, "DAT301")
    assert document["findings"][0]["evidence"][0]["line"] == 3
    assert json.loads(listed.read_text())["files"][0]["records"] == [2]
    assert (cleaned / "a.jsonl").read_bytes() == LINES
    assert run([*words, "--quarantine", str(listed)]) == 2, "it exists"
    assert run(["check", "--json", "data", str(tmp_path)]) == 2
    assert "keepstep check data PATH" in capsys.readouterr().err
