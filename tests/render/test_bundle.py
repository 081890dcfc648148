# SPDX-License-Identifier: Apache-2.0
"""The bundle: complete, redacted, bounded, the same every time, all or nothing."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest
from made_reports import out_of_memory

from keepstep.errors import UserError
from keepstep.model.codec import from_dict
from keepstep.model.evidence import Evidence
from keepstep.model.facts.base import Fact
from keepstep.model.report import Report
from keepstep.render.bundle import WHOLE, write_bundle
from keepstep.sources.files.file_search import find_files
from keepstep.sources.files.left_files import FileKind, LeftFile

SECRETS = ["hunter2x", "ghp_Zq7Rk2Xw9Tn4Vb8Lm3Pc6Yd1Hs5Gf0Ja", "MIIEowIBAAKCAQEA"]


def items(report: Report) -> tuple[Evidence[Fact], ...]:
    return tuple(e for f in report.findings for e in f.evidence)


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            m.name.removeprefix("keepstep-bundle/"): archive.extractfile(m).read().decode()  # type: ignore[union-attr]
            for m in archive.getmembers()
        }


def sources(folder: Path, **texts: str) -> list[LeftFile]:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for name, text in texts.items():
        (logs / f"{name}.log").write_text(text)
    return find_files([logs]).files


def test_a_bundle_holds_the_report_the_evidence_and_the_logs(tmp_path: Path) -> None:
    report = out_of_memory(4)
    out = write_bundle(report, items(report), sources(tmp_path, rank3="hello\nworld\n"), tmp_path / "b.tar.gz")
    found = contents(out)
    assert list(found) == [
        "manifest.json",
        "report.json",
        "report.html",
        "report.txt",
        "evidence.jsonl",
        "logs/rank3.log.txt",
    ]
    assert json.loads(found["report.json"])["schema"] == "keepstep.report/1"
    assert "rank 3 ran out of GPU memory" in found["report.txt"]
    assert found["logs/rank3.log.txt"] == "hello\nworld\n"
    read = [from_dict(json.loads(line)) for line in found["evidence.jsonl"].splitlines()]
    assert [e.quote for e in read] == [e.quote for e in items(report)]
    assert json.loads(found["manifest.json"])["sources"][0]["part"] == "whole"


def test_no_secret_is_in_any_part(tmp_path: Path) -> None:
    text = f"password={SECRETS[0]} {SECRETS[1]}"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{SECRETS[2]}\n-----END RSA PRIVATE KEY-----\n"
    report = out_of_memory(4, text=text)
    logs = sources(tmp_path, rank0=f"a\n{text}\n{key}after\n")
    out = write_bundle(report, items(report), logs, tmp_path / "b.tar.gz")
    whole = gzip.decompress(out.read_bytes())
    for secret in SECRETS:
        assert secret.encode() not in whole
    assert "after" in contents(out)["logs/rank0.log.txt"]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    report = out_of_memory(4)
    logs = sources(tmp_path, rank0="a\n", rank1="b\n")
    one = write_bundle(report, items(report), logs, tmp_path / "one.tar.gz").read_bytes()
    other = write_bundle(report, items(report), logs, tmp_path / "other.tar.gz").read_bytes()
    assert one == other


def test_of_a_large_log_what_stands_around_the_evidence_is_kept(tmp_path: Path) -> None:
    report = out_of_memory(4)
    lines = [f"line {n} " + "x" * 80 for n in range(1, 30_001)]
    lines[9_989] = "-----BEGIN EC PRIVATE KEY-----"
    lines[9_990:10_200] = ["MHcCAQEEIsecret" + "y" * 49] * 210
    (log,) = sources(tmp_path, big="\n".join(lines) + "\n")
    place = items(report)[0]
    at_log = type(place.origin)(source=log.name, line=20_000)
    near_key = type(place.origin)(source=log.name, line=10_150)
    evidence = [type(place)(fact=place.fact, origin=o, quote="x") for o in (at_log, near_key)]
    found = contents(write_bundle(report, evidence, [log], tmp_path / "b.tar.gz"))
    kept = found["logs/big.log.txt"]
    assert len(kept) < WHOLE
    for wanted in ("line 1 ", "line 19950 ", "line 20000 ", "line 20050 ", "line 30000 "):
        assert wanted in kept
    assert "line 25000 " not in kept
    assert "lines left out; line 19940 of 30000 follows" in kept
    assert "MHcCAQEEIsecret" not in kept


def test_cores_stay_out_and_standard_input_goes_in(tmp_path: Path) -> None:
    core = LeftFile(tmp_path / "core.1", "core.1", FileKind.CORE, 10)
    piped = LeftFile(None, "stdin", FileKind.LOG, 6, None, b"piped\n")
    report = out_of_memory(4)
    found = contents(write_bundle(report, items(report), [core, piped], tmp_path / "b.tar.gz"))
    assert found["logs/stdin.txt"] == "piped\n"
    assert not any("core" in name for name in found)
    assert "left_out" in json.loads(found["manifest.json"])["sources"][0]


def test_compressed_logs_go_in_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"packed\n"))
    report = out_of_memory(4)
    found = contents(
        write_bundle(report, items(report), find_files([tmp_path / "a.log.gz"]).files, tmp_path / "b.tar.gz")
    )
    assert found["logs/a.log.gz.txt"] == "packed\n"


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs/olute", "a/../b", "..", "-rf", "x\ny", "\u202eodd", "a" * 400]
)
def test_no_name_leads_out_of_the_archive(tmp_path: Path, name: str) -> None:
    twice = [LeftFile(None, name, FileKind.LOG, 2, None, b"a\n")] * 2
    report = out_of_memory(4)
    found = contents(write_bundle(report, items(report), twice, tmp_path / "b.tar.gz"))
    logs = [path for path in found if path.startswith("logs/")]
    assert len(logs) == 2
    assert not any(part in ("", "..") or part.startswith(("-", ".")) for path in logs for part in path.split("/"))


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    out.write_text("mine")
    report = out_of_memory(4)
    with pytest.raises(UserError, match="without --force"):
        write_bundle(report, items(report), [], out)
    assert out.read_text() == "mine"
    write_bundle(report, items(report), [], out, force=True)
    assert contents(out)


def test_a_folder_that_is_not_there_is_a_user_error_and_leaves_nothing(tmp_path: Path) -> None:
    report = out_of_memory(4)
    with pytest.raises(UserError, match="cannot write"):
        write_bundle(report, items(report), [], tmp_path / "none" / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []
