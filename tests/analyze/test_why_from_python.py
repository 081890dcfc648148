# SPDX-License-Identifier: Apache-2.0
"""`keepstep.why(path)`: the same answer as the command line, and a report that shows itself."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keepstep
from keepstep.errors import UserError

FAILED = """\
[rank0]: step 10 loss 0.5
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/app/train.py", line 7, in main
[rank1]:     raise KeyError("<script>alert(1)</script>", token)
[rank1]: KeyError: '<script>alert(1)</script> HF_TOKEN=hf_Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1W'
[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:3371
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(FAILED)
    return path


def test_it_is_the_document_of_the_command_line(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = keepstep.why(log, kernel_log=False)
    assert capfd.readouterr() == ("", "")
    command = [sys.executable, "-m", "keepstep", "why", "--no-kernel-log"]
    printed = subprocess.run([*command, log, "--json"], capture_output=True, timeout=120)
    assert report.to_dict() == json.loads(printed.stdout)
    assert report.root is not None and report.root.ranks == (1,)
    text = subprocess.run([*command, log], capture_output=True, text=True, timeout=120)
    assert str(report) == text.stdout.rstrip("\n")


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(log: Path) -> None:
    report = keepstep.why(str(log), kernel_log=False)
    shown = report._repr_html_()
    found = re.fullmatch(r'<iframe [^>]*sandbox="allow-scripts" srcdoc="([^"]*)"[^>]*>(.*)</iframe>\n?', shown, re.S)
    assert found is not None
    page = html.unescape(found[1])
    assert page.startswith("<!doctype html>") and "KeyError" in page and "<script>alert" not in page
    assert "KeyError" in found[2] and "<script>" not in found[2]  # where frames are taken out
    for output in (shown, str(report), repr(report), report.to_html()):
        assert "hf_Ab1" not in output
    assert repr(report).startswith("<keepstep report: failed, user.code_exception: ")


def test_the_check_shows_itself_too() -> None:
    report = keepstep.check.check("env")
    assert report is not None and report._repr_html_().startswith("<iframe ")
    assert keepstep.check_data([{"x": [1.0]}] * 4)._repr_html_().startswith("<iframe ")


def test_a_wrong_call_says_so(tmp_path: Path) -> None:
    for wrong in (
        lambda: keepstep.why(),
        lambda: keepstep.why(tmp_path / "nothing"),
        lambda: keepstep.why("x", pids=[1]),
    ):
        with pytest.raises(UserError):
            wrong()


def test_importing_keepstep_loads_nothing_for_it() -> None:
    before = "import sys; old = set(sys.modules); import keepstep; keepstep.__all__; "
    asked = (
        before + "print(sorted(n for n in set(sys.modules) - old if n.startswith(('keepstep', 'dataclasses', 'json'))))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() in ("['keepstep']", "[]")  # the start-up hook may have imported it already
