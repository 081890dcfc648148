# SPDX-License-Identifier: Apache-2.0
"""The drawing in ARCHITECTURE.md, held by tests: who may import whom, and how files are named and opened."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "keepstep"
LAB = ROOT / "lab" / "src" / "keepstep_lab"

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "stuff"}


class File(NamedTuple):
    """What the tests below ask of one file of the package."""

    path: Path
    text: str
    docstring: str | None
    imports: frozenset[str]
    """The absolute names of all modules that it imports, wherever in the file."""
    relative: bool
    """Whether it imports by another than the full name."""
    annotates: bool

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


def read(path: Path) -> File:
    text = path.read_text()
    tree = ast.parse(text, str(path), feature_version=(3, 10))
    plain = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    # faults are also loaded from a copy beside the job's script, where the package has another name
    beside = 1 if path.parent == LAB / "faults" else 0
    return File(
        path,
        text,
        ast.get_docstring(tree),
        frozenset([*plain, *(node.module or "" for node in parts)]),
        any(node.level > beside for node in parts),
        any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign) for node in tree.body),
    )


@cache
def files() -> list[File]:
    return [read(path) for path in sorted([*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")])]


def test_the_import_contracts_of_pyproject_hold() -> None:
    pytest.importorskip("importlinter")
    call = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", call, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_modules_import_each_other_in_a_circle() -> None:
    drawn = pytest.importorskip("grimp").build_graph("keepstep", "keepstep_lab", cache_dir=None)
    imports = {name: set(drawn.find_modules_directly_imported_by(name)) for name in drawn.modules}
    importers = {name: set(drawn.find_modules_that_directly_import(name)) for name in drawn.modules}
    for neighbours in (imports, importers):  # whoever leads only to others that are gone is in no circle
        while free := [name for name, found in neighbours.items() if not found & neighbours.keys()]:
            for name in free:
                del neighbours[name]
    assert not sorted(imports.keys() & importers.keys())


def test_what_all_else_stands_on_needs_only_the_standard_library() -> None:
    own = ("keepstep.base", "keepstep.model", "keepstep.signals", "keepstep.story")
    foreign = [
        f"{file.name}: {name}"
        for file in files()
        if any(file.path.is_relative_to(PACKAGE / room.removeprefix("keepstep.")) for room in own)
        for name in file.imports
        if name.partition(".")[0] not in sys.stdlib_module_names and not name.startswith((*own, "keepstep.knowledge"))
    ]
    assert not foreign


def test_every_module_is_imported_by_its_full_name() -> None:
    assert not [file.name for file in files() if file.relative]


def test_every_file_begins_with_its_licence() -> None:
    assert not [file.name for file in files() if not file.text.startswith("# SPDX-License-Identifier: Apache-2.0\n")]


def test_every_file_says_in_its_docstring_what_it_is_for() -> None:
    assert not [file.name for file in files() if not file.docstring]


def test_every_name_says_what_the_file_holds() -> None:
    empty = [f for f in files() if EMPTY_NAMES & {f.path.stem, *f.path.relative_to(ROOT).parts}]
    assert not [file.name for file in empty]


def test_importing_a_module_with_future_annotations_keeps_python_310_working() -> None:
    assert not [file.name for file in files() if file.annotates and "__future__" not in file.imports]


def test_no_text_passes_for_a_number_that_int_refuses() -> None:
    """`"²".isdigit()` is true, and `int("²")` raises. Bytes are ASCII only, and have no `isdecimal`."""
    doubtful = [
        f"{file.name}: {line.strip()}"
        for file in files()
        if "int(" in file.text
        for line in file.text.splitlines()
        if (".isdigit(" in line or ".isnumeric(" in line) and "# bytes" not in line
    ]
    assert not doubtful, "use keepstep.base.whole_numbers.whole, or isdecimal"


MAKES = {"mkdir", "makedirs", "write_text", "write_bytes", "mkfifo", "mknod", "copyfile", "copytree", "touch"}
MAKES_ITSELF = {
    "base/safe_files.py",
    "knowledge/__init__.py",  # stands below it, and writes for all users of an installation
    "render/rules_docs.py",  # pages of the documentation
    "supervise/start/control_group.py",  # names of the kernel, which sets the modes
    "guard/record/checkpoint_ledger.py",  # the folder that a training is about to save in
    "guard/spare.py",  # a number of the kernel
}


def test_one_file_decides_who_may_read_what_keepstep_makes() -> None:
    """Others make their folders and files by `base.safe_files`, or by `tempfile`, whose modes are private."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKES:
                found.append(name)
    assert sorted(set(found) - MAKES_ITSELF) == []
    assert MAKES_ITSELF - set(found) == set(), "an exception that is none"


def test_every_line_of_long_tests_names_a_test() -> None:
    lines = (ROOT / "tests" / "long_tests.txt").read_text().splitlines()
    for line in (each for each in lines if not each.startswith("#")):
        file, _, test = line.partition("::")
        assert f"def {test.partition('[')[0]}" in (ROOT / "tests" / file).read_text(), line
