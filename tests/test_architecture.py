# SPDX-License-Identifier: Apache-2.0
"""The drawing in ARCHITECTURE.md, held by tests: who may import whom, and how files are named and opened."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "keepstep"
LAB = ROOT / "lab" / "src" / "keepstep_lab"
FILES = sorted([*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")])

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "stuff"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """The absolute names of all modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # faults are also loaded from a copy beside the job's script, where the package has another name
            beside = node.level == 1 and path.parent == LAB / "faults"
            assert node.level == 0 or beside, f"{name_of(path)}:{node.lineno}: import by the full name"
            yield node.module or ""


def test_the_import_contracts_of_pyproject_hold() -> None:
    pytest.importorskip("importlinter")
    call = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", call, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_what_all_else_stands_on_needs_only_the_standard_library() -> None:
    own = ("keepstep.base", "keepstep.model", "keepstep.signals", "keepstep.story")
    foreign = [
        f"{name_of(path)} imports {name}"
        for room in own
        for path in (PACKAGE / room.removeprefix("keepstep.")).rglob("*.py")
        for name in imports_of(path)
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith((*own, "keepstep.knowledge"))
    ]
    assert not foreign


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_begins_with_its_licence_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n"), "the first line is the SPDX line"
    assert ast.get_docstring(ast.parse(text)), "a module docstring says what the file is for"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_name_says_what_the_file_holds(path: Path) -> None:
    assert path.stem not in EMPTY_NAMES
    assert not EMPTY_NAMES & set(path.relative_to(ROOT).parts)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_importing_a_module_with_future_annotations_keeps_python_310_working(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    if any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign) for node in tree.body):
        assert "__future__" in set(imports_of(path))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_text_passes_for_a_number_that_int_refuses(path: Path) -> None:
    """`"²".isdigit()` is true, and `int("²")` raises. Bytes are ASCII only, and have no `isdecimal`."""
    text = path.read_text()
    doubtful = [
        line for line in text.splitlines() if (".isdigit(" in line or ".isnumeric(" in line) and "# bytes" not in line
    ]
    assert not doubtful or "int(" not in text, "use keepstep.base.whole_numbers.whole, or isdecimal"
