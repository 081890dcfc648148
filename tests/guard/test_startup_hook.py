# SPDX-License-Identifier: Apache-2.0
"""The start-up hook: nothing when off, next to nothing when on, and never in the way."""

from __future__ import annotations

import os
import signal
import site
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keepstep.guard import companion

ASK = """
import json, signal, sys
import {module}
print(json.dumps({{
    "keepstep": sorted(m for m in sys.modules if m.split(".")[0] == "keepstep"),
    "finders": [type(f).__name__ for f in sys.meta_path],
    "loader": type({module}.__loader__).__name__,
    "sigterm": repr(signal.getsignal(signal.SIGTERM)),
}}))
"""


def ask(module: str, folder: Path, **env: str) -> dict[str, object]:
    import json

    kept = {key: os.environ[key] for key in ("PATH", "HOME", "VIRTUAL_ENV") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(module=module)], env=kept | env, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_the_hook_is_installed() -> None:
    assert any((Path(folder) / "keepstep.pth").is_file() for folder in site.getsitepackages())


@pytest.mark.parametrize("off", [{}, {"KEEPSTEP": "off"}, {"KEEPSTEP": ""}, {"KEEPSTEP": "0"}])
def test_nothing_is_loaded_when_off(tmp_path: Path, off: dict[str, str]) -> None:
    found = ask("json.decoder", tmp_path, **off)
    assert found["keepstep"] == [] and "ImportFinder" not in found["finders"]  # type: ignore[operator]


def test_a_program_without_a_framework_is_left_alone(tmp_path: Path) -> None:
    found = ask("json.decoder", tmp_path, KEEPSTEP="on", RANK="0", WORLD_SIZE="2")
    assert found["finders"].count("ImportFinder") == 1  # type: ignore[attr-defined]
    assert set(found["keepstep"]) == {
        "keepstep",
        "keepstep.guard",
        "keepstep.guard.startup_hook",
        "keepstep.guard.import_hook",
        "keepstep.guard.mode",
    }  # type: ignore[call-overload]
    assert list(tmp_path.iterdir()) == []
    assert "SIG_DFL" in str(found["sigterm"])


def test_a_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ['MINE'] = 'ran'\n")
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ.get('MINE'))"],
        env={**os.environ, "KEEPSTEP": "on", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ran\n" and done.stderr == ""


def test_a_module_is_told_of_once_and_never_sees_the_hook(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "trainer.py").write_text("import late_part\nVALUE = 7\n")
    (tmp_path / "lib" / "late_part.py").write_text("")
    code = (
        "import sys; from keepstep.guard.import_hook import after_import; told = []\n"
        "after_import({'trainer': lambda m: told.append(m.VALUE), 'absent': told.append,\n"
        "              'json': lambda m: told.append('now')})\n"
        "import json, trainer, importlib\n"
        "try:\n    import absent\nexcept ImportError as error: told.append(str(error))\n"
        "importlib.reload(trainer)\n"
        "print(told, type(trainer.__loader__).__name__, type(trainer.__spec__.loader).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "lib")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "['now', 7, \"No module named 'absent'\"] SourceFileLoader SourceFileLoader\n", done.stderr


def test_a_program_that_asks_whether_a_module_is_there_imports_it_later(tmp_path: Path) -> None:
    """As libraries do before they import torch; a hook that fails is no failure of the import."""
    (tmp_path / "trainer.py").write_text("")
    code = (
        "import importlib.util; from keepstep.guard.import_hook import after_import\n"
        "after_import({'trainer': lambda m: (print('told'), 1 / 0)})\n"
        "import copy; copy.copy(importlib.util.find_spec('trainer').loader)\n"
        "print(*(importlib.util.find_spec('trainer') is not None for _ in range(2)))\n"
        "import trainer\n"
        "print(type(trainer.__spec__.loader).__name__, importlib.util.find_spec('trainer') is trainer.__spec__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout == "True True\ntold\nSourceFileLoader True\n", done.stderr
    assert done.stderr == "keepstep: the guard could not hook trainer (ZeroDivisionError: division by zero)\n"


def test_a_module_that_fails_to_import_fails_as_ever(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('of its own')\n")
    code = (
        "from keepstep.guard.import_hook import after_import\n"
        "after_import({'broken': lambda m: print('told')})\n"
        "for _ in range(2):\n"
        "    try:\n        import broken\n"
        "    except RuntimeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout == "of its own\nof its own\n", done.stderr


def test_the_companion_starts_where_sleeping_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under libfaketime `time.sleep` raises; the clock of the rank is wrong there, too."""

    def fails(seconds: float) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(time, "sleep", fails)
    companion.accompany(tmp_path)
    end, pausing = time.monotonic() + 60, threading.Event()
    while (pid := companion.living(tmp_path)) is None and time.monotonic() < end:
        pausing.wait(0.05)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_one_companion_is_started_by_ranks_that_start_together(tmp_path: Path) -> None:
    """A second one would load its modules beside the ranks, only to find that it is not needed."""
    meet = threading.Barrier(4)
    code = "import sys; from pathlib import Path; from keepstep.guard import companion\n"
    code += "sys.stdin.readline(); companion.accompany(Path(sys.argv[1]))\n"
    code += "import resource; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 0)"
    said: list[str] = []

    def rank() -> None:
        words = [sys.executable, "-c", code, str(tmp_path)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        meet.wait()
        said.append(process.communicate("\n", timeout=120)[0].strip())

    ranks = [threading.Thread(target=rank) for _ in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    pid = companion.living(tmp_path)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert sorted(said) == ["False", "False", "False", "True"]


def test_the_companion_loads_little() -> None:
    """It starts beside ranks that use all cores."""
    code = "import sys; import keepstep.supervise.watch.companion; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"concurrent.futures", "logging", "shutil", "statistics", "secrets", "subprocess", "tempfile", "random"}
    assert not heavy & set(done.stdout.split())
