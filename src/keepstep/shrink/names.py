# SPDX-License-Identifier: Apache-2.0
"""Which names statements bind and use: what must go with a removed statement, and what a statement needs."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator

from keepstep.shrink.program import SCOPES, Edits, Node, Program, own_parts, uid

BUILT_IN = {*dir(builtins), "__file__", "__name__", "__doc__", "__package__", "__spec__", "__builtins__"}


class Names:
    """Of each statement: the names that it binds and uses.

    A name belongs to the function it is bound in, else to the file. An attribute that the program itself sets, or a
    method that it defines, counts as a name of the whole program.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.binds: dict[Node, set[str]] = {}
        self.uses: dict[Node, set[str]] = {}
        self._scope: dict[Node, tuple[Node, ...]] = {}
        """The functions around a statement, from the inside; and the file."""
        self._bound_in: dict[Node, set[str]] = defaultdict(set)
        self._statements = list(program.statements())
        for each in self._statements:
            self.binds[uid(each)], self.uses[uid(each)] = _bound(each), _used(each)
            around = [node for node in program.above(each) if isinstance(node, (*SCOPES, ast.Module))]
            self._scope[uid(each)] = tuple(uid(node) for node in around)
            self._bound_in[self._scope[uid(each)][0]] |= self.binds[uid(each)]
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._bound_in[uid(each)] |= _parameters(each)
        self._own = {name for names in self.binds.values() for name in names if name.startswith(".")}

    def closed(self, edits: Edits, kept: set[Node]) -> Edits | None:
        """The edits, and the removal of everything that uses what is no longer bound. None if that is in ``kept``."""
        removed = set(edits.removed)
        while True:
            left = [each for each in self._statements if not self._is_gone(each, removed)]
            bound: dict[Node, set[str]] = defaultdict(set)
            attributes: set[str] = set()
            for each in left:
                if isinstance(each, ast.AugAssign):
                    continue  # it changes what another statement binds
                bound[self._scope[uid(each)][0]] |= self.binds[uid(each)]
                attributes |= {name for name in self.binds[uid(each)] if name.startswith(".")}
                if isinstance(each, SCOPES):
                    attributes |= {f".{each.name}"}
                    if not isinstance(each, ast.ClassDef):
                        bound[uid(each)] |= _parameters(each)
            # of an attribute nobody knows who else sets it (`args.steps` and `self.steps`): what is kept may try it
            lost = [
                each
                for each in left
                if self._lacks(each, bound, self._own if uid(each) in kept else attributes, removed)
            ]
            if not lost:
                return Edits(**{**edits.__dict__, "removed": frozenset(removed)})
            for each in lost:
                if uid(each) in kept:
                    return None
                removed.add(uid(each))

    def _is_gone(self, node: ast.stmt, removed: set[Node]) -> bool:
        return uid(node) in removed or any(uid(each) in removed for each in self._program.above(node))

    def _lacks(self, node: ast.stmt, bound: dict[Node, set[str]], attributes: set[str], removed: set[Node]) -> bool:
        scopes = self._scope[uid(node)]
        unused = {f".{each.name}" for each in getattr(node, "names", ()) if getattr(each, "uid", None) in removed}
        for name in self.uses[uid(node)] - unused:
            if name.startswith("."):
                if name in self._own and name not in attributes:
                    return True
            elif any(name in self._bound_in[scope] for scope in scopes) and not any(
                name in bound[scope] for scope in scopes
            ):
                return True
        return False

    def slice_of(self, kept: Iterable[Node], *, mutators: bool) -> set[Node]:
        """The statements that these need by name, and what is around them.

        ``mutators``: also statements that only call something of what is needed (`optimizer.step()`).
        """
        wanted = set(kept)
        asked_for = {name for names in self.uses.values() for name in names} - {".__init__"}
        while True:
            before = len(wanted)
            for node in list(wanted):
                outer = self._program.above(self._program.nodes[node])
                wanted |= {uid(each) for each in outer if isinstance(each, ast.stmt)}
            names = {each for node in wanted if node in self.uses for each in self._meant(node, self.uses[node])}
            for each in self._statements:
                around = [uid(node) for node in self._program.above(each) if isinstance(node, SCOPES)]
                needed = any(name in names for name in self._meant(uid(each), self.binds[uid(each)]))
                if isinstance(each, (ast.Return, ast.Global, ast.Nonlocal)) or _sets_up(each):
                    needed |= all(node in wanted for node in around)
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and around[:1] and around[0] in wanted:
                    needed |= f".{each.name}" not in asked_for  # others call it: `__init__`, `forward`
                if mutators and isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
                    needed |= any(name in names for name in self._meant(uid(each), _roots(each.value)))
                if needed:
                    wanted.add(uid(each))
            if len(wanted) == before:
                return wanted

    def _meant(self, node: Node, names: Iterable[str]) -> Iterator[tuple[Node | None, str]]:
        """Each name with the scope that it belongs to; attributes belong to the whole program."""
        for name in names:
            if name.startswith("."):
                if name != ".__init__":  # every class has one
                    yield None, name
                continue
            for scope in self._scope[node]:
                if name in self._bound_in[scope]:
                    yield scope, name
                    break


SET_UP = ("init_process_group", "initialize", "set_device", "__init__", "spawn", "main", "manual_seed", "add_argument")


def _sets_up(node: ast.stmt) -> bool:
    """A call whose effect is not in a name: the group, the seed, the parent's constructor."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in SET_UP


def _roots(call: ast.Call) -> set[str]:
    return {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    found: set[str] = set()
    if isinstance(node, SCOPES):
        return {node.name, f".{node.name}"}
    for each in own_parts(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            found.add(f".{each.attr}")
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            root = each.value
            found |= {f".{root.attr}"} if isinstance(root, ast.Attribute) else set()
            found |= {root.id} if isinstance(root, ast.Name) else set()
        elif isinstance(each, ast.alias):
            found.add((each.asname or each.name).partition(".")[0])
        elif isinstance(each, ast.ExceptHandler) and each.name:
            found.add(each.name)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
    return found


def _used(node: ast.stmt) -> set[str]:
    found: set[str] = set()
    for each in own_parts(node):
        if isinstance(each, ast.Name) and (isinstance(each.ctx, ast.Load) or isinstance(node, ast.AugAssign)):
            found.add(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
            found.add(f".{each.attr}")
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store) and isinstance(each.value, ast.Name):
            found.add(each.value.id)
        elif isinstance(each, ast.alias) and isinstance(node, ast.ImportFrom):
            found.add(f".{each.name}")
    return found - BUILT_IN


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
