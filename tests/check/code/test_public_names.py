# SPDX-License-Identifier: Apache-2.0
"""The table of public names has all that the installed frameworks offer."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from keepstep.parse.code.vocabulary import canonical
from keepstep.rules.code._public_names import KEYWORDS, NAMES, ONLY_V1


def folder_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


def offered(path: Path) -> dict[str, ast.ImportFrom]:
    """The names that a module imports in order to offer them, and from where."""
    imports = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.ImportFrom)]
    names = {(alias.asname or alias.name): each for each in imports for alias in each.names}
    return {name: each for name, each in names.items() if not name.startswith("_")}


@pytest.mark.parametrize("module", ["tpu", "distribute", "distribute.experimental", "distribute.cluster_resolver"])
def test_all_that_tensorflow_offers_is_known(module: str) -> None:
    stub = folder_of("tensorflow") / "_api/v2" / module.replace(".", "/") / "__init__.py"
    known = NAMES[canonical(f"tensorflow.{module}.").rstrip(".")]
    assert set(offered(stub)) - known == set()


def test_names_of_the_first_version_are_offered_only_there() -> None:
    root = folder_of("tensorflow") / "_api/v2"
    for module, names in ONLY_V1.items():
        below = module.partition(".")[2]
        assert names <= set(offered(root / "compat/v1" / below / "__init__.py"))
        assert not names & set(offered(root / below / "__init__.py"))


def arguments_of(root: Path, module: str, name: str) -> set[str]:
    """What the constructor of a class takes, wherever the module has it from."""
    path = root.parent / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    for each in ast.parse(path.read_text()).body:
        if isinstance(each, ast.ClassDef) and each.name == name:
            made = next(it for it in each.body if isinstance(it, ast.FunctionDef) and it.name == "__init__")
            return {arg.arg for arg in (*made.args.args, *made.args.kwonlyargs)} - {"self"}
        if isinstance(each, ast.ImportFrom):
            for alias in each.names:
                if (alias.asname or alias.name) == name:
                    return arguments_of(root, each.module or "", alias.name)
    raise AssertionError(f"{module} has no {name}")


@pytest.mark.parametrize("call", KEYWORDS)
def test_all_arguments_that_tensorflow_takes_are_known(call: str) -> None:
    module, _, name = call.removeprefix("tensorflow.").rpartition(".")
    taken = arguments_of(folder_of("tensorflow"), f"tensorflow._api.v2.{module}", name)
    assert taken
    assert taken <= KEYWORDS[call]


def test_all_methods_of_strategies_are_known() -> None:
    text = (folder_of("tensorflow") / "python/distribute/distribute_lib.py").read_text()
    classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    methods = {
        method.name
        for each in classes
        if each.name in ("Strategy", "StrategyBase", "StrategyV1")
        for method in each.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
    }
    assert len(methods) > 10
    assert methods <= NAMES["tensorflow.distribute.MirroredStrategy"]


def test_all_that_jax_offers_is_known() -> None:
    assert set(offered(folder_of("jax") / "distributed.py")) <= NAMES["jax.distributed"]
