# SPDX-License-Identifier: Apache-2.0
"""Puts the cure of a planted bug into a program that `keepstep shrink` made smaller.

The cure is two texts, with the bug and without. The smaller program may have other numbers, other folding of lines and
constants in the place of options, so statements are compared as trees: as they are, then without their constants, then
without their names too. A place is only taken where it is the only one.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

BODIES = ("body", "orelse", "finalbody")


def mended(folder: Path, old: str, new: str) -> bool:
    """Whether the cure found its place in a file of the folder."""
    files = sorted(folder.rglob("*.py"))
    for path in files:
        text = path.read_text()
        if text.count(old) == 1:
            path.write_text(text.replace(old, new))
            return True
    before, after = _statements(old), _statements(new)
    if before is None or after is None:
        return _fragment(files, old.strip(), new.strip())
    for loose in (_as_it_is, _without_constants, _without_names):
        places = [(path, *place) for path in files for place in _places(path, before, loose)]
        if len(places) == 1:
            path, tree, body, at = places[0]
            body[at : at + len(before)] = after or [ast.Pass()]
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
            return True
    return False


def _statements(text: str) -> list[ast.stmt] | None:
    text = textwrap.dedent(text)
    for tail in ("", "    pass\n"):
        try:
            return ast.parse(text.rstrip() + "\n" + tail).body if text.strip() else []
        except SyntaxError:
            continue
    return None


def _fragment(files: list[Path], old: str, new: str) -> bool:
    """A part of a line."""
    found = [path for path in files if path.read_text().count(old) == 1]
    if len(found) != 1:
        return False
    found[0].write_text(found[0].read_text().replace(old, new))
    return True


def _places(
    path: Path, before: list[ast.stmt], loose: Callable[[ast.AST], str]
) -> Iterator[tuple[ast.Module, list[ast.stmt], int]]:
    tree, wanted = ast.parse(path.read_text()), [loose(each) for each in before]
    for node in ast.walk(tree):
        for name in BODIES:
            body = getattr(node, name, None)
            if isinstance(body, list):
                said = [loose(each) for each in body]
                for at in range(len(said) - len(wanted) + 1):
                    if wanted and said[at : at + len(wanted)] == wanted:
                        yield tree, body, at


def _as_it_is(node: ast.AST) -> str:
    return ast.dump(node)


def _without_constants(node: ast.AST) -> str:
    return ast.dump(_Loose().visit(copy.deepcopy(node)))


def _without_names(node: ast.AST) -> str:
    return ast.dump(_Loose(names=True).visit(copy.deepcopy(node)))


class _Loose(ast.NodeTransformer):
    """Constants, and the options that may stand in their place, are all the same."""

    def __init__(self, *, names: bool = False) -> None:
        self._names = names

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in ("a", "args", "opt", "opts", "cfg", "config", "hp"):
            return ast.Constant(0)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_") if self._names else node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return self.generic_visit(node)
