# SPDX-License-Identifier: Apache-2.0
"""Files are judged together wherever one may mean something in another, and apart where none can."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstep.check.code import check_code as whole
from keepstep.check.code.check_code import CodeRequest, check_code
from keepstep.check.code.program.islands import Imports, islands

PROGRAMS = Path(__file__).parent / "programs"


def groups(**files: tuple[str, ...]) -> set[frozenset[str]]:
    """By module with ``__`` for dots: what each imports."""
    made = islands({name: Imports(name.replace("__", "."), names) for name, names in files.items()})
    return {frozenset(each) for each in made}


def test_an_import_joins_and_nothing_else_does() -> None:
    assert groups(a=("b.f", "torch"), b=("os",), c=("torch",)) == {frozenset("ab"), frozenset("c")}
    assert groups(a=("c",), b=("c.f",), c=()) == {frozenset("abc")}


def test_a_bare_name_means_a_neighbour_or_one_above() -> None:
    found = groups(p__a=("m.f",), p__m=(), q__a=("m.f",), q__m=())
    assert found == {frozenset({"p__a", "p__m"}), frozenset({"q__a", "q__m"})}
    assert groups(p__q__a=("m.f",), p__m=(), m=()) == {frozenset({"p__q__a", "p__m", "m"})}


def test_a_package_stands_for_all_that_is_in_it() -> None:
    assert groups(train=("pkg",), pkg__deep__m=(), other=()) == {
        frozenset({"train", "pkg__deep__m"}),
        frozenset({"other"}),
    }


def test_a_name_that_may_mean_several_joins_them_all() -> None:
    found = groups(x__train=("utils.dist.f",), y__utils__dist=(), z__utils__dist=())
    assert found == {frozenset({"x__train", "y__utils__dist", "z__utils__dist"})}


def test_files_of_the_same_module_are_together() -> None:
    assert islands({"a/train.py": Imports("train", ()), "b/train.py": Imports("train", ())}) == [
        ["a/train.py", "b/train.py"]
    ]


def test_any_file_of_the_project_may_show_that_it_is_of_the_first_tensorflow(tmp_path: Path) -> None:
    of_tpu = "import tensorflow as tf\n\n\ndef mean(x):\n    return tf.tpu.cross_replica_sum(x) / 8\n"
    (tmp_path / "mean.py").write_text(of_tpu)
    (tmp_path / "numbers.py").write_text("import tensorflow as tf\n\nprint(tf.constant(1))\n")
    assert [each.rule for each in check_code(CodeRequest(paths=(tmp_path,))).report.findings] == ["COD018"]
    (tmp_path / "main.py").write_text("import tensorflow as tf\n\nsession = tf.Session()\n")
    assert check_code(CodeRequest(paths=(tmp_path,))).report.findings == ()


def test_apart_they_say_what_they_say_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = CodeRequest(paths=(PROGRAMS / "shown", PROGRAMS / "added"), preview=True, cache=False)
    apart = check_code(asked).report
    monkeypatch.setattr(whole, "islands", lambda files: [list(files)])
    together = check_code(asked).report
    assert len(apart.findings) > 100
    assert apart.findings == together.findings and apart.crashed == together.crashed == ()
