# SPDX-License-Identifier: Apache-2.0
"""Which names statements bind and use: what must go with a removed statement, and what a statement needs."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from keepstep.shrink.program import SCOPES, Edits, Node, Place, Program, bodies, name_called, own_parts, uid

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BUILT_IN = {*dir(builtins), "__file__", "__name__", "__doc__", "__package__", "__spec__", "__builtins__"}


class Names:
    """Of each statement: the names that it binds and uses.

    A name belongs to the function it is bound in, else to the file. An attribute that the program itself sets, or a
    method that it defines, counts as a name of the whole program.
    """

    def __init__(self, program: Program, executed: Collection[Place] | None = None) -> None:
        """``executed``: the lines that ran; None if that is not known."""
        self._program = program
        self.binds: dict[Node, set[str]] = {}
        self.uses: dict[Node, set[str]] = {}
        self._scope: dict[Node, tuple[Node, ...]] = {}
        """The functions around a statement, from the inside; and the file."""
        self._bound_in: dict[Node, set[str]] = defaultdict(set)
        self._statements = list(program.statements())
        self._within = {uid(each): {uid(each), *map(uid, program.above(each))} for each in self._statements}
        with_fields = [
            (above.name, f".{each.target.id}")
            for each in self._statements
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            for above in program.above(each)
            if isinstance(above, ast.ClassDef)
        ]
        self._fields = {*with_fields, *(("replace", name) for _, name in with_fields)}
        """What a call may say by name, with the class that is called."""
        for each in self._statements:
            self.binds[uid(each)], self.uses[uid(each)] = _bound(each), _used(each, self._fields)
            around = [node for node in program.above(each) if isinstance(node, (*SCOPES, ast.Module))]
            self._scope[uid(each)] = tuple(uid(node) for node in around)
            if around and isinstance(around[0], ast.ClassDef):
                self.binds[uid(each)] |= {f".{name}" for name in self.binds[uid(each)] if name[:1] != "."}
            self._bound_in[self._scope[uid(each)][0]] |= self.binds[uid(each)]
            if isinstance(each, FUNCTIONS):
                self._bound_in[uid(each)] |= _parameters(each)
        self._used_once = {name.removeprefix(".") for names in self.uses.values() for name in names}
        self._gives: dict[Node, list[Node]] = {}
        """Of a function that ran: the statements that give its value."""
        self._needs: dict[Node, Node] = {}
        """What frameworks and Python call themselves, and the class that cannot do without."""
        for each in self._statements:
            if executed is None or (uid(each)[0], each.lineno) in executed:
                function = next((node for node in program.above(each) if isinstance(node, SCOPES)), None)
                if isinstance(function, FUNCTIONS) and gives_a_value(each):
                    self._gives.setdefault(uid(function), []).append(uid(each))
        for each in self._statements:
            owner = next((node for node in program.above(each) if isinstance(node, ast.ClassDef)), None)
            ran = executed is None or any(
                (uid(each)[0], line) in executed for line in range(each.lineno + 1, (each.end_lineno or 0) + 1)
            )
            if owner is not None and ((ran and _is_called_by_others(each)) or _is_parents(each, owner)):
                self._needs[uid(each)] = uid(owner)
        self._uncalled = {
            uid(each)
            for each in self._statements
            if isinstance(each, FUNCTIONS) and executed is not None
            if not any((uid(each)[0], n) in executed for n in range(each.body[0].lineno, (each.end_lineno or 0) + 1))
        }
        """Functions that never ran: `load(path) if path else 0` can do without their bodies."""
        first = [self.binds[uid(each)] for each in self._statements if not isinstance(each, ast.AugAssign)]
        self._own = {name for names in first for name in names if name.startswith(".")}
        """Attributes that the program itself sets: what `p.grad /= world` changes was there before."""
        self._plain = {uid(each) for each in self._statements if _is_plain(each)}
        self._options = {uid(each) for each in self._statements if _is_option(each)}
        self._sets = {uid(each): _set(each) for each in self._statements}
        self._of_others = {name for node, names in self.binds.items() if node not in self._options for name in names}
        """Attributes that something else than a parser of options sets."""
        self._ends = [(uid(each), ways) for each in self._statements for ways in ends_of_loop(program, each)]
        """Of each loop: the statements of which one must stay, or a program that no longer fails never ends."""
        self.unreached: set[Node] = set()
        """What no trial runs: names that it lacks show nowhere."""

    def closed(self, edits: Edits, kept: set[Node]) -> Edits | None:
        """The edits, and the removal of everything that uses what is no longer bound. None if that is in ``kept``."""
        removed, uses = set(edits.removed), self.uses_now(edits)
        for node in edits.unwrapped:  # all but the body goes: `else`, `except`
            removed |= {uid(each) for body in list(bodies(self._at(node)))[1:] for each in body}
        values = bool(edits.replaced or any(isinstance(self._program.nodes[node], ast.keyword) for node in removed))
        while True:
            left = [each for each in self._statements if not self._is_gone(each, removed)]
            bound: dict[Node, set[str]] = defaultdict(set)
            attributes: set[str] = set()
            for each in left:
                if isinstance(each, ast.AugAssign) or uid(each) in edits.unwrapped:
                    continue  # it changes what another statement binds, or only its body is left
                binds = self.binds[uid(each)]
                if isinstance(each, (ast.Import, ast.ImportFrom)):
                    binds = {_name_of(alias) for alias in each.names if uid(alias) not in removed}
                bound[self._scope[uid(each)][0]] |= binds - (self._sets[uid(each)] & uses[uid(each)])
                attributes |= {name for name in self.binds[uid(each)] if name.startswith(".")}
                if isinstance(each, SCOPES):
                    attributes |= {f".{each.name}"}
                    if not isinstance(each, ast.ClassDef):
                        bound[uid(each)] |= _parameters(each)  # one that is gone was not used
            # of an attribute nobody knows who else sets it (`args.steps` and `self.steps`): what is kept may try it
            may_try = kept - self.unreached
            tried = attributes | (self._own & self._of_others)
            lost = [
                each
                for each in left
                if self._lacks(each, uses[uid(each)], bound, tried if uid(each) in may_try else attributes, removed)
            ]
            remaining = {uid(each) for each in left}
            gone = {node for each in lost for node in self._lost(each, attributes, removed)}
            gone |= {
                node for node, gives in self._gives.items() if node in remaining and not remaining.intersection(gives)
            }
            gone |= {around for node, around in self._needs.items() if around in remaining and node not in remaining}
            gone |= {
                loop
                for loop, ways in self._ends
                if loop in remaining and loop not in edits.unwrapped and not remaining.intersection(ways)
            }
            if gone & kept:
                return None
            gone = gone or (self._emptied(left, remaining) - kept)
            gone = gone or (self._idle(left, uses, removed, values=values) - kept)
            if not gone:
                return Edits(**{**edits.__dict__, "removed": frozenset(removed)})
            removed |= gone

    def uses_now(self, edits: Edits) -> Mapping[Node, set[str]]:
        """The names that each statement uses, after what was done to its expressions."""
        places = [node for node, _ in edits.replaced] + [each for each in edits.removed if not self._is_statement(each)]
        changed = {self._statement_of(each) for each in places}
        now = {each: self._program.replaced(self._at(each), edits) for each in changed}
        nothing: dict[Node, set[str]] = {each: set() for each in edits.unwrapped}
        return {**self.uses, **{each: _used(node, self._fields) for each, node in now.items()}, **nothing}

    def _lost(self, node: ast.stmt, attributes: set[str], removed: set[Node]) -> set[Node]:
        """The statement that lacks something; of an import only the names that are nowhere, if others are left."""
        if not isinstance(node, ast.ImportFrom):
            return {uid(node)}
        lacks = {uid(each) for each in node.names if f".{each.name}" in self._own - attributes}
        return {uid(node)} if lacks | removed >= set(map(uid, node.names)) else lacks - removed

    def _emptied(self, left: Iterable[ast.stmt], remaining: Collection[Node]) -> set[Node]:
        """An `if` of which nothing is left to do, and functions that did something once and are only called."""
        found = set()
        for each in left:
            if isinstance(each, ast.If):
                may_go = all(
                    name_called(part) in ONLY_ASKS for part in ast.walk(each.test) if isinstance(part, ast.Call)
                )
            elif isinstance(each, FUNCTIONS) and uid(each) not in self._uncalled:
                may_go = not (each.name[:2] == "__" or each.name in CALLED_BY_OTHERS)
            else:
                continue
            if may_go and not any(uid(node) in remaining for body in bodies(each) for node in body):
                found.add(uid(each))
        return found

    def _is_statement(self, node: Node) -> bool:
        return isinstance(self._program.nodes[node], ast.stmt)

    def _at(self, node: Node) -> ast.stmt:
        return self._program.nodes[node]  # type: ignore[return-value]

    def _idle(
        self, left: list[ast.stmt], uses: Mapping[Node, set[str]], removed: set[Node], *, values: bool
    ) -> set[Node]:
        """Imports, functions and classes that are no longer used by name, though once they were.

        ``values``: also assignments, which may do more than that: only where a part of an expression is tried.
        """
        users: dict[str, set[Node]] = defaultdict(set)
        attributes: dict[str, set[Node]] = defaultdict(set)
        for each in left:
            for name in uses[uid(each)]:
                users[name.removeprefix(".")].add(uid(each))
                if name.startswith("."):
                    attributes[name[1:]].add(uid(each))
        found: set[Node] = set()
        for each in left:
            if isinstance(each, (ast.Import, ast.ImportFrom)):
                names = {uid(alias): _name_of(alias) for alias in each.names}
                idle = {
                    node
                    for node, name in names.items()
                    if node not in removed and name in self._used_once and users[name] <= {uid(each)}
                }
                found |= {uid(each)} if removed | idle >= set(names) else idle
            elif (
                isinstance(each, SCOPES)
                and all("dataclass" in ast.unparse(each) for each in each.decorator_list)
                and each.name in self._used_once
                and not isinstance(next(self._program.above(each)), ast.ClassDef)
            ):
                found |= {uid(each)} if all(uid(each) in self._within[user] for user in users[each.name]) else set()
            elif uid(each) in self._plain or (
                values and (uid(each) in self._options or isinstance(each, (ast.Assign, ast.AnnAssign)))
            ):
                names_here = {name.removeprefix(".") for name in self.binds[uid(each)]}
                by = attributes if uid(each) in self._options else users
                if (
                    names_here
                    and names_here <= self._used_once
                    and not any(by[name] - {uid(each)} for name in names_here)
                ):
                    found.add(uid(each))
        return found

    def _is_gone(self, node: ast.stmt, removed: set[Node]) -> bool:
        return not self._within[uid(node)].isdisjoint(removed)

    def _statement_of(self, node: Node) -> Node:
        at = self._program.nodes[node]
        return next(uid(each) for each in (at, *self._program.above(at)) if isinstance(each, ast.stmt))

    def _lacks(
        self, node: ast.stmt, uses: set[str], bound: dict[Node, set[str]], attributes: set[str], removed: set[Node]
    ) -> bool:
        scopes = self._scope[uid(node)]
        unused = {f".{each.name}" for each in getattr(node, "names", ()) if getattr(each, "uid", None) in removed}
        for name in uses - unused:
            if name.startswith("."):
                if name in self._own and name not in attributes:
                    return True
            elif any(name in self._bound_in[scope] for scope in scopes) and not any(
                name in bound[scope] for scope in scopes
            ):
                return True
        return False

    def slice_of(self, kept: Iterable[Node], *, mutators: bool) -> set[Node]:
        """The statements that these need by name or that fill what they need (`rows.append(x)`), and what is around.

        ``mutators``: also statements that only call something of what is needed (`optimizer.step()`).
        """
        wanted = set(kept)
        asked_for = {name for names in self.uses.values() for name in names} - {".__init__"}
        while True:
            before = len(wanted)
            for node in list(wanted):
                outer = self._program.above(self._program.nodes[node])
                wanted |= {uid(each) for each in outer if isinstance(each, ast.stmt)}
            for loop, ways in self._ends:
                wanted |= ways if loop in wanted else set()
            names = self.all_meant(wanted)
            for each in self._statements:
                around = [uid(node) for node in self._program.above(each) if isinstance(node, SCOPES)]
                needed = any(name in names for name in self.meant(uid(each), self.binds[uid(each)]))
                if isinstance(each, (ast.Return, ast.Global, ast.Nonlocal)) or _sets_up(each):
                    needed |= all(node in wanted for node in around)
                if isinstance(each, FUNCTIONS) and around[:1] and around[0] in wanted:
                    needed |= f".{each.name}" not in asked_for  # others call it: `__init__`, `forward`
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
                    if mutators:
                        needed |= any(name in names for name in self.meant(uid(each), _roots(each.value)))
                    elif getattr(each.value.func, "attr", "") in FILLS:
                        needed |= any(name in names for name in self.meant(uid(each), _filled(each.value)))
                if needed:
                    wanted.add(uid(each))
            if len(wanted) == before:
                return wanted

    def feeding(self, nodes: Iterable[Node]) -> set[Node]:
        """The statements that bind or touch a name that these use; of functions and classes, what is in them; of a
        parameter, those that call its function."""
        asked = set(nodes)
        names = self.all_meant(asked)
        called = {self._called_as(scope) for scope, name in names if scope is not None and self._is_given(scope, name)}
        found = set()
        for each in self._statements:
            touched = set(self.binds[uid(each)])
            if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
                touched |= _roots(each.value)
            above = next(self._program.above(each), None)
            inside = isinstance(above, SCOPES) and uid(above) in asked
            if (
                inside
                or called & {name.removeprefix(".") for name in self.uses[uid(each)]}
                or any(name in names for name in self.meant(uid(each), touched))
            ):
                found.add(uid(each))
        return found

    def _is_given(self, scope: Node, name: str) -> bool:
        function = self._program.nodes[scope]
        return isinstance(function, FUNCTIONS) and name in _parameters(function)

    def _called_as(self, scope: Node) -> str:
        function = self._program.nodes[scope]
        owner = next(self._program.above(function))
        made = isinstance(owner, ast.ClassDef) and getattr(function, "name", "") == "__init__"
        return str(getattr(owner if made else function, "name", ""))

    def all_meant(self, nodes: Iterable[Node]) -> set[tuple[Node | None, str]]:
        """The names that these use, each with its scope."""
        return {each for node in nodes if node in self.uses for each in self.meant(node, self.uses[node])}

    def meant(self, node: Node, names: Iterable[str]) -> Iterator[tuple[Node | None, str]]:
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


ONLY_ASKS = (
    "get_rank",
    "get_world_size",
    "is_initialized",
    "is_available",
    "process_index",
    "len",
    "isinstance",
    "int",
)
FILLS = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "pop", "remove", "put", "sort")
ENDLESS = ("cycle", "count", "repeat")
SET_UP = ("init_process_group", "initialize", "set_device", "spawn", "main", "manual_seed")
CALLED_BY_OTHERS = ("forward", "call", "setup", "__iter__", "__next__", "__getitem__", "__len__", "__call__")


def gives_a_value(node: ast.stmt) -> bool:
    if isinstance(node, ast.Return):
        return node.value is not None
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_parts(node))


def _is_called_by_others(node: ast.stmt) -> bool:
    if not isinstance(node, FUNCTIONS):
        return False
    return node.name in CALLED_BY_OTHERS or (node.name == "__init__" and len(_parameters(node)) > 1)


def _is_parents(node: ast.stmt, around: ast.ClassDef) -> bool:
    """`super().__init__()` of a class that has a parent."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call) or not around.bases:
        return False
    return isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "__init__"


def _sets_up(node: ast.stmt) -> bool:
    """A call whose effect is not in a name: the group, the seed."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in SET_UP


def ends_of_loop(program: Program, node: ast.stmt) -> Iterator[set[Node]]:
    """The statements in a loop that bring it to an end, as groups of which one is enough."""
    endless = isinstance(node, ast.For) and _is_endless(program, node.iter)
    if not isinstance(node, ast.While) and not endless:
        return
    inside = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node]
    constant = endless or isinstance(node.test, ast.Constant)  # type: ignore[attr-defined]
    leaves = [
        each
        for each in inside
        if isinstance(each, ast.Return)
        or (isinstance(each, ast.Break) and loop_of(program, each) is node)
        or (constant and isinstance(each, ast.Raise))
    ]
    if constant:
        if leaves:
            yield set(map(uid, leaves))
        asked = [above.test for each in leaves for above in program.above(each) if isinstance(above, ast.If)][:1]
    else:
        asked = [node.test]  # type: ignore[attr-defined]
    for name in {part.id for test in asked for part in ast.walk(test) if isinstance(part, ast.Name)}:
        if counts := {uid(each) for each in inside if not isinstance(each, SCOPES) and name in _bound(each)}:
            yield counts


def loop_of(program: Program, node: ast.stmt) -> ast.AST | None:
    return next((each for each in program.above(node) if isinstance(each, (ast.While, ast.For))), None)


def _is_endless(program: Program, iterated: ast.expr) -> bool:
    """`itertools.cycle(x)`, or a generator of the program that loops for ever."""
    called = {_last_of(each.func) for each in ast.walk(iterated) if isinstance(each, ast.Call)}
    return bool(called & set(ENDLESS)) or any(
        isinstance(each, FUNCTIONS)
        and each.name in called
        and any(
            isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and any(map(gives_a_value, loop.body))
            for loop in each.body
        )
        for each in program.statements()
    )


def _last_of(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _filled(call: ast.Call) -> set[str]:
    """`rows` of `rows.append(x)`, and `.rows` of `self.rows.append(x)`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if isinstance(owner, ast.Attribute):
        return {f".{owner.attr}"}
    return {owner.id} if isinstance(owner, ast.Name) else set()


def _roots(call: ast.Call) -> set[str]:
    return {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}


def _name_of(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


def _set(node: ast.stmt) -> set[str]:
    """`x` of `x = f(x)`, which needs another statement that sets it."""
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    found: set[str] = set()
    if isinstance(node, SCOPES):
        return {node.name, f".{node.name}"}
    for each in own_parts(node):
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "add_argument":
            found |= set(_options(each))
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            found.add(f".{each.attr}")
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            root = each.value
            found |= {f".{root.attr}"} if isinstance(root, ast.Attribute) else set()
            found |= {root.id} if isinstance(root, ast.Name) else set()
        elif isinstance(each, ast.alias):
            found.add(_name_of(each))
        elif isinstance(each, ast.ExceptHandler) and each.name:
            found.add(each.name)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
    return found


def _is_plain(node: ast.stmt) -> bool:
    """`step, epoch = 0, 0`, which does nothing but give names."""
    return isinstance(node, ast.Assign) and all(
        isinstance(each, (ast.Constant, ast.Name, ast.Tuple, ast.expr_context))
        for part in (*node.targets, node.value)
        for each in ast.walk(part)
    )


def _is_option(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return getattr(node.value.func, "attr", "") == "add_argument"


def _options(call: ast.Call) -> Iterator[str]:
    """The attributes that `parser.add_argument("--batch-size")` makes."""
    for each in call.args:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield "." + each.value.lstrip("-").replace("-", "_")
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield f".{keyword.value.value!s}"


def _used(node: ast.stmt, fields: Collection[tuple[str, str]]) -> set[str]:
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
        elif isinstance(each, ast.Call):
            said = {f".{keyword.arg}" for keyword in each.keywords}
            found |= {name for name in said if (_last_of(each.func), name) in fields}
    return found - BUILT_IN


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
