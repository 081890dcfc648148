# SPDX-License-Identifier: Apache-2.0
"""When keepstep itself breaks: status 70, plain words, and a report with none of the user's values."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from keepstep import cli
from keepstep.cli import own_crash

SECRET = "hunter2-of-the-user"


def breaks(monkeypatch: pytest.MonkeyPatch, error: BaseException, *words: str) -> int:
    def fail(arguments: list[str]) -> int:
        value = SECRET
        try:
            raise KeyError(value)
        except KeyError:
            raise error from None if isinstance(error, KeyboardInterrupt) else KeyError(value)

    monkeypatch.setattr("keepstep.cli.parser.run", fail)
    monkeypatch.setattr(sys, "argv", ["keepstep", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_crash_has_a_status_of_its_own_and_leaves_a_report_for_the_user_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    status = breaks(
        monkeypatch,
        ValueError(f"cannot read {SECRET}"),
        "why",
        f"/home/{SECRET}/logs",
        "--html",
        f"{SECRET}.html",
        f"--config={SECRET}",
    )
    assert status == 70
    said = capsys.readouterr().err
    assert "keepstep itself broke" in said and "issue page" in said and "Traceback" not in said and SECRET not in said
    (path,) = (tmp_path / "keepstep" / "broke").iterdir()
    assert str(path) in said
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert SECRET not in text
    assert (
        "ValueError" in text
        and "verb: why, options: --html --config" in text
        and "keepstep/cli/__init__.py" in text
        and "run(arguments)" in text
    )


def test_what_python_itself_says_stays_without_what_is_quoted() -> None:
    for statement, said in (
        ("int('hunter2')", "invalid literal for int() with base 10: '...'"),
        ("[][1]", "list index out of range"),
        ("1 + 'hunter2'", "unsupported operand type(s) for +: 'int' and 'str'"),
        ("None.hunter2", "'NoneType' object has no attribute '...'"),
        ("open('/nonexistent/hunter2')", "[Errno 2] No such file or directory: '...'"),
        ("{}['hunter2']", "(its text is left out because it may hold your values)"),
        ("exec('raise RuntimeError(\"hunter2\")')", "(its text is left out because it may hold your values)"),
    ):
        try:
            eval(statement)
        except Exception as error:
            text = own_crash.report(error, ["why", "hunter2"])
        assert f": {said}\n" in text and "hunter2" not in text, text


def test_a_deep_recursion_and_an_error_that_cannot_be_printed_are_reported() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def down() -> None:
        down()

    for fail in (down, lambda: (_ for _ in ()).throw(Unspeakable())):
        try:
            fail()
        except Exception as error:
            text = own_crash.report(error, [])
        assert len(text.splitlines()) < 120


def test_a_state_folder_that_cannot_be_written_is_no_second_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert breaks(monkeypatch, ValueError("x"), "why") == 70
    assert "with these lines" in capsys.readouterr().err


def test_old_reports_are_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for _ in range(own_crash.MOST_REPORTS + 3):
        assert own_crash._write("x") is not None
    assert len(list((tmp_path / "keepstep" / "broke").iterdir())) == own_crash.MOST_REPORTS


def test_ctrl_c_and_a_reader_that_left_are_no_crash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert breaks(monkeypatch, KeyboardInterrupt(), "why") == 130
    program = "import sys; sys.argv = ['keepstep', 'rules']; from keepstep.cli import main; main()"
    reading = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )
    assert reading.stdout is not None and reading.stderr is not None
    reading.stdout.close()
    assert reading.wait(60) == 0 and reading.stderr.read() == b""
    reading.stderr.close()
    assert not (tmp_path / "keepstep" / "broke").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_supervisor_that_breaks_takes_its_ranks_along_and_says_so(tmp_path: Path) -> None:
    program = f"""
        import sys, time
        from pathlib import Path
        from keepstep.cli import main
        from keepstep.supervise.attempt import Attempt
        def watch(self):
            while not Path({str(tmp_path / "pid")!r}).exists():
                time.sleep(0.05)
            raise ValueError("{SECRET}")
        Attempt.watch = watch
        code = "import os, time; open({str(tmp_path / "part")!r}, 'w').write(str(os.getpid()))"
        code += "; os.rename({str(tmp_path / "part")!r}, {str(tmp_path / "pid")!r}); time.sleep(600)"
        sys.argv = ["keepstep", "run", "--no-check", "--no-spares", "-n", "1",
                    "--run-dir", {str(tmp_path / "runs")!r}, "--", sys.executable, "-c", code]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 70, done.stderr
    assert (
        "keepstep itself broke" in done.stderr
        and "had started were ended" in done.stderr
        and "Traceback" not in done.stderr
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIG_DFL)


def test_a_report_that_cannot_be_written_does_not_change_the_status_of_a_run(tmp_path: Path) -> None:
    program = f"""
        import sys
        from keepstep.cli import main
        from keepstep.render import json
        def fail(report):
            raise ValueError("no")
        json.render_json = fail
        sys.argv = ["keepstep", "run", "--no-check", "--no-spares", "-n", "1", "--run-dir", {str(tmp_path)!r}, "--",
                    sys.executable, "-c", "print('done')"]
        main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "the report could not be written (ValueError" in done.stderr
