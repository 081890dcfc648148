"""What is remembered of hosts, beyond their runs."""

from pathlib import Path

from keepstep.store.host_failures import HostRun, remember, remembered


def test_runs_and_failures_of_a_host_add_up(tmp_path: Path):
    path = tmp_path / "state" / "hosts.jsonl"
    remember([HostRun(host="b", run="r1", at=1.0, failures=2, cause="it went silent"), _well("a", 1.0)], path)
    remember([_well("b", 2.0), _well("a", 2.0)], path)
    a, b = remembered(path)
    assert (a.host, a.runs, a.failures, a.last_cause) == ("a", 2, 0, None)
    assert (b.host, b.runs, b.failures, b.last_cause) == ("b", 2, 2, "it went silent")
    assert (b.last_run_at, b.last_failure_at) == (2.0, 1.0)
    assert path.stat().st_mode & 0o077 == 0


def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path):
    path = tmp_path / "hosts.jsonl"
    path.write_bytes(b'\xff\n{"host": 3}\n[]\nnull\n{"host": "c", "run": "r", "at": 1.0}\n{"host": "d", "ru')
    assert [each.host for each in remembered(path)] == ["c"]


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path: Path):
    (tmp_path / "file").touch()
    remember([_well("a", 1.0)], tmp_path / "file" / "hosts.jsonl")
    assert remembered(tmp_path / "file" / "hosts.jsonl") == []


def _well(host: str, at: float) -> HostRun:
    return HostRun(host=host, run="r", at=at)
