# SPDX-License-Identifier: Apache-2.0
"""Build the wheel and the sdist, install each into a fresh environment on every Python that is here, and try it.

    python -m tools.dist_check                     all of 3.10 to 3.13 that are found
    python -m tools.dist_check --python PATH ...   only these

What cannot be found is named; it is an error only if nothing was tried.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
RECORDING = ROOT / "tests" / "recordings" / "torch_full_disk"
NOT_IN_AN_SDIST = ("/.git/", "/.venv", "/tests/", "/lab/")
WANTED_IN_A_WHEEL = ("keepstep/__init__.py", "keepstep/py.typed", "keepstep.pth")


def find(version: str) -> Path | None:
    """An interpreter of that version: on the path, of pyenv, or of uv."""
    named = shutil.which(f"python{version}")
    homes = [
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path.home() / ".local/share/uv/python",
    ]
    candidates = [Path(named)] if named else []
    candidates += [path for home in homes for path in sorted(home.glob(f"*{version}*/bin/python{version}"))]
    return next((path for path in candidates if _answers(path, version)), None)


def _answers(python: Path, version: str) -> bool:
    """A shim of pyenv may be there for a version that is not."""
    asked = subprocess.run(
        [python, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
    )
    return asked.returncode == 0 and asked.stdout.strip() == version


def build(out: Path, of: Path = ROOT) -> tuple[Path, Path]:
    """With the build backend that is pinned in requirements/, not with one that is fetched now."""
    make = "import hatchling.build as b, sys; print(b.build_sdist(sys.argv[1])); print(b.build_wheel(sys.argv[1]))"
    done = _run([sys.executable, "-c", make, str(out)], cwd=of)
    sdist, wheel = (out / name for name in done.stdout.split())
    return wheel, sdist


def look_into(wheel: Path, sdist: Path) -> None:
    """All is in that has to be, and nothing that must not."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    missing = [name for name in WANTED_IN_A_WHEEL if (ROOT / "src" / name).exists() and name not in names]
    odd = [name for name in names if not name.startswith(("keepstep/", "keepstep-")) and name != "keepstep.pth"]
    with tarfile.open(sdist) as archive:
        odd += [name for name in archive.getnames() if any(each in name for each in NOT_IN_AN_SDIST)]
    if missing or odd:
        raise SystemExit(f"the wheel lacks {missing}; it or the sdist has {odd}")


def try_out(python: Path, archive: Path, folder: Path, lab: Path) -> str:
    """Installed with its dependencies, asked for help, and put to a recorded failure. Returns what it said.

    Then the lab beside it, which keepstep misses before and finds afterwards.
    """
    _run([python, "-m", "venv", folder])
    mine = folder / "bin" / "python"
    _run([mine, "-m", "pip", "install", "-q", archive])
    outside = {"cwd": folder}  # no source tree is near
    assert "why" in _run([folder / "bin" / "keepstep", "--help"], **outside).stdout
    logs = shutil.copytree(RECORDING, folder / "logs", ignore=shutil.ignore_patterns("*.json"))
    done = _run([folder / "bin" / "keepstep", "why", str(logs), "--json"], allowed=(1,), **outside)
    report = json.loads(done.stdout)
    assert report["verdict"] == "failed" and report["findings"], report
    where = _run([mine, "-c", "import keepstep; print(keepstep.__file__)"], **outside).stdout.strip()
    assert Path(where).is_relative_to(folder), where
    assert "pip install" in _run([folder / "bin" / "keepstep", "lab", "list"], allowed=(2,), **outside).stderr
    _run([mine, "-m", "pip", "install", "-q", "--no-deps", lab])
    assert "torch_segfault" in _run([folder / "bin" / "keepstep", "lab", "list"], **outside).stdout
    return str(report["findings"][0]["title"])


def _run(
    command: list[object], *, cwd: Path | None = None, allowed: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, cwd=cwd, env=clean, timeout=600
    )
    if done.returncode not in allowed:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description="Build keepstep and try it on several Pythons.")
    parser.add_argument(
        "--python", nargs="+", type=Path, help="interpreters to try (default: 3.10 to 3.13, where found)"
    )
    asked = parser.parse_args()
    found = (
        {str(path): path for path in asked.python} if asked.python else {version: find(version) for version in VERSIONS}
    )
    with tempfile.TemporaryDirectory(prefix="keepstep-dist-") as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        look_into(wheel, sdist)
        lab, _ = build(folder, ROOT / "lab")
        for version, python in found.items():
            if python is None:
                print(f"Python {version}: not found here, not tried")
                continue
            for archive in (wheel, sdist):
                said = try_out(python, archive, folder / f"{version.replace('/', '_')}-{archive.suffix[1:]}", lab)
                print(f"Python {version}: {archive.name} installs and runs ({said})", flush=True)
    return 0 if any(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
