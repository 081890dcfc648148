"""`keepstep why` as a user calls it: outputs, exit statuses, bad input. Real processes."""

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

FAILED = b"""\
[rank0]: step 10 loss 0.5
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/app/train.py", line 12, in <module>
[rank1]:     main()
[rank1]:   File "/srv/app/train.py", line 7, in main
[rank1]:     x = batch["label"]
[rank1]: KeyError: 'label'
[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:3371
[rank2]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:3371
"""
HEALTHY = b"step 1 loss 0.5\nstep 2 loss 0.4\nTraining finished\n"


def why(*arguments: object, given: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, timeout=120, env={**os.environ, **environment})


def report(*arguments: object, given: bytes | None = None) -> dict:
    return json.loads(why(*arguments, "--json", given=given).stdout)


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.log").write_bytes(FAILED)
    return tmp_path / "run"


def test_one_exception_and_its_fallout_are_one_story(failed):
    said = report(failed)
    root = said["findings"][0]
    assert said["verdict"] == "failed"
    assert (root["cause"], root["ranks"], root["role"]) == ("user.code_exception", [1], "initiating")
    assert root["evidence"][0]["source"] == "train.log"
    assert root["evidence"][0]["line"] == 2
    assert {f["role"] for f in said["findings"][1:]} <= {"cascade", "teardown", "contributing"}


def test_the_terminal_report_stands_at_80_columns_without_colours(failed):
    done = why(failed, COLUMNS="80")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "rank 1" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_healthy_run_is_said_to_be_healthy_and_what_was_looked_at(tmp_path):
    (tmp_path / "a.log").write_bytes(HEALTHY)
    done = why(tmp_path)
    assert done.returncode == 0
    assert b"healthy" in done.stdout
    assert b"looked at: 1 log" in done.stdout


def test_standard_input_and_packed_files_give_the_same_answer(failed, tmp_path):
    packed = tmp_path / "train.log.gz"
    packed.write_bytes(gzip.compress(FAILED))
    causes = [
        [f["cause"] for f in report(*a, given=g)["findings"]]
        for a, g in (((failed,), None), (("-",), FAILED), ((packed,), None))
    ]
    assert causes[0] == causes[1] == causes[2]


def test_html_and_bundle_are_written_once(failed, tmp_path):
    page, bundle = tmp_path / "page.html", tmp_path / "run.tar.gz"
    assert why(failed, "--html", page, "--bundle", bundle).returncode == 1
    assert page.read_text().startswith("<!")
    assert bundle.stat().st_size > 1000
    again = why(failed, "--html", page)
    assert again.returncode == 2
    assert b"exists" in again.stderr
    assert why(failed, "--html", page, "--force").returncode == 1


def test_a_planted_secret_is_in_no_output(tmp_path):
    secret = "hf_" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1W"
    text = FAILED.replace(
        b"KeyError: 'label'", f"ValueError: bad token HF_TOKEN={secret} at https://me:{secret}@host/x".encode()
    )
    (tmp_path / "a.log").write_bytes(text)
    page, bundle = tmp_path / "page.html", tmp_path / "b.tar.gz"
    done = why(tmp_path / "a.log", "--html", page, "--bundle", bundle)
    assert b"redacted" in done.stdout
    for output in (
        done.stdout,
        why(tmp_path / "a.log", "--json").stdout,
        page.read_bytes(),
        gzip.decompress(bundle.read_bytes()),
    ):
        assert secret.encode() not in output


def no_traceback(done: subprocess.CompletedProcess[bytes], status: int | set[int]) -> str:
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert "Traceback (most recent call last)" not in done.stderr.decode("utf-8", "replace")
    assert done.returncode in ({status} if isinstance(status, int) else status), said
    return said


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path):
    assert "no such file" in no_traceback(why(tmp_path / "nothing"), 2)


def test_nothing_to_look_at_is_a_usage_error():
    assert "hint" in no_traceback(why(), 2)
    assert "--live" in no_traceback(why("--pid", 1), 2)


def test_an_empty_folder_could_not_be_looked_at(tmp_path):
    no_traceback(why(tmp_path), 3)


def test_an_empty_file_could_not_be_looked_at(tmp_path):
    (tmp_path / "a.log").touch()
    assert "empty" in no_traceback(why(tmp_path / "a.log"), 3)


def test_binary_junk_is_said(tmp_path):
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 1000)
    assert "binary" in no_traceback(why(tmp_path / "junk"), 3)


def test_a_truncated_archive_is_said_and_still_read(tmp_path):
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(FAILED + os.urandom(100_000).hex().encode())[:-500])
    said = no_traceback(why(tmp_path / "a.log.gz"), 1)
    assert "KeyError" in said
    assert "truncated" in said


def test_a_malicious_pickle_does_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/ran",))

    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Evil()], "version": "2.5", "pg_config": {}}))
    no_traceback(why(tmp_path / "nccl_trace_rank_0"), {1, 3})
    assert not (tmp_path / "ran").exists()


def test_a_core_that_is_none_is_said(tmp_path):
    (tmp_path / "core.1").write_bytes(b"\x7fELF\x02\x01\x01" + b"\x00" * 9 + b"\x04\x00\xf3\x00" + b"\x00" * 300)
    no_traceback(why(tmp_path / "core.1"), {1, 3})


def test_a_log_with_colours_junk_and_progress_bars_is_read(tmp_path):
    text = (
        b"\xff\xfe\x00bad\n"
        + b"\r".join(b"%d%%|##" % n for n in range(100))
        + b"\r\x1b[31m"
        + FAILED.replace(b"\n", b"\x1b[0m\r\n")
    )
    (tmp_path / "a.log").write_bytes(text)
    assert report(tmp_path / "a.log")["findings"][0]["cause"] == "user.code_exception"


def test_help_needs_no_heavy_import():
    code = "import sys; sys.argv=['keepstep','--help']; from keepstep.cli import main\ntry: main()\n"
    code += "except SystemExit: pass\nheavy = ('rich','hyperscan','psutil','numpy','pystack')\n"
    code += "print(sorted(m for m in sys.modules if m.split('.')[0] in heavy), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "[]"
    assert "exit status" in done.stdout
