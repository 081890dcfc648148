# SPDX-License-Identifier: Apache-2.0
"""What a mended program goes on with after the failing line: no trial gets there and says that it is needed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable

from keepstep.shrink.names import CALLED_BY_OTHERS, FUNCTIONS, Names, gives_a_value
from keepstep.shrink.program import SCOPES, Node, Place, Program, bodies, name_called, own_parts, uid

WRITES = tuple(
    "save dump write write_text write_bytes writelines savez savetxt save_pretrained save_weights to_csv touch mkdir "
    "makedirs mkdtemp replace rename move copy copyfile".split()
)

READS = tuple("open load loads loadtxt fromfile memmap read_text read_bytes read_csv load_file load_weights".split())
STARTS = ("Popen", "Process", "posix_spawn", "system", "wait", "communicate")
LOOKS = ("exists", "isfile", "is_file", "isdir", "is_dir", "stat", "glob", "listdir", "iterdir")


def going_on(program: Program, names: Names, executed: Collection[Place], failing: Iterable[ast.stmt]) -> set[Node]:
    """The ``return`` after each failing or calling line, and what leads to its value after that line.

    Also functions that never ran, and that these lines or that value call.
    """
    found: set[Node] = set()
    since: dict[Node, int] = {}
    """Functions on the failing stack, and the line in each."""
    stack = list(failing)
    for each in stack:
        function = next((node for node in program.above(each) if isinstance(node, SCOPES)), None)
        if isinstance(function, FUNCTIONS):
            since[uid(function)] = max(each.lineno, since.get(uid(function), 0))
            found |= {uid(node) for node in _value_after(program, each)}

    def ran(node: ast.stmt, body_only: bool = False) -> bool:
        first = node.body[0].lineno if body_only and isinstance(node, FUNCTIONS) else node.lineno
        return any((uid(node)[0], line) in executed for line in range(first, (node.end_lineno or 0) + 1))

    def whole(node: ast.stmt) -> set[Node]:
        return {uid(each) for each in ast.walk(node) if isinstance(each, ast.stmt)}

    functions = [each for each in program.statements() if isinstance(each, FUNCTIONS)]
    answered = {(None, f".{each.name}") for each in functions if ran(each, body_only=True)}
    """Methods that ran: a call by their name was probably theirs."""
    called = names.all_meant(map(uid, stack))
    seen: set[Node] = set()
    """What ran, and makes what the value needs."""
    while True:
        before = len(found), len(seen)
        needed = names.all_meant(found | seen)
        for each in program.statements():
            if uid(each) in found:
                continue
            binds = set(names.meant(uid(each), names.binds[uid(each)] | _changed_by_call(each)))
            if isinstance(each, FUNCTIONS):
                if binds & (needed | called) - answered and not ran(each, body_only=True):
                    found |= whole(each)
            elif binds & needed:
                around = next((node for node in program.above(each) if isinstance(node, (*SCOPES, ast.Module))), None)
                if around is not None and each.lineno > since.get(uid(around), each.lineno):
                    found.add(uid(each))
                elif ran(each):
                    seen.add(uid(each))
            if isinstance(each, ast.ClassDef) and uid(each) in seen:
                for method in each.body:
                    if isinstance(method, FUNCTIONS) and method.name in CALLED_BY_OTHERS:
                        found |= set() if ran(method, body_only=True) else whole(method)
        found |= {
            uid(each) for node in found for each in program.above(program.nodes[node]) if isinstance(each, ast.stmt)
        }
        if (len(found), len(seen)) == before:
            return found


def that_write(program: Program) -> set[Node]:
    """What writes files, and what calls it: where a file was not there, a mended program may have to write it first."""
    return _with_callers(program, _writes)


def that_start(program: Program) -> set[Node]:
    """What starts processes or waits for them, and what calls it: nothing that they run names their launcher."""
    return _with_callers(program, _starts)


def _with_callers(program: Program, is_one: Callable[[ast.AST], bool]) -> set[Node]:
    found: set[Node] = set()
    called: set[str] = set()
    while True:
        before = len(found)
        for each in program.statements():
            if any(is_one(part) or name_called(part) in called for part in own_parts(each)):
                around = [node for node in program.above(each) if isinstance(node, ast.stmt)]
                inside = ast.walk(each) if isinstance(each, ast.With) else [each]
                found |= {uid(node) for node in (*inside, *around) if isinstance(node, ast.stmt)}
                called |= {node.name for node in around if isinstance(node, FUNCTIONS)}
        if len(found) == before:
            return found


def looks_for_files(program: Program, failing: Collection[ast.stmt]) -> bool:
    """Whether one of these lines, or a loop around it, asks if a file is there."""
    asking = [each for node in failing for each in (node, *program.above(node))]
    asking = [each for each in asking if each in failing or isinstance(each, ast.While)]
    return any(name_called(part) in LOOKS for each in asking for part in own_parts(each))  # type: ignore[arg-type]


def reads(node: ast.stmt) -> bool:
    return any(name_called(part) in READS for part in own_parts(node))


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    modes = [each for each in (*node.args[1:2], *(one.value for one in node.keywords if one.arg == "mode"))]
    opens = name_called(node) == "open" and any(set("wax+") & set(str(getattr(each, "value", ""))) for each in modes)
    return opens or name_called(node) in WRITES


def _starts(node: ast.AST) -> bool:
    owner = getattr(getattr(getattr(node, "func", None), "value", None), "id", "")
    return name_called(node) in STARTS or (owner == "subprocess" and isinstance(node, ast.Call))


def _changed_by_call(node: ast.stmt) -> set[str]:
    """`rows` of `rows.append(x)`."""
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return {called.value.id} if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else set()


def _value_after(program: Program, node: ast.stmt) -> list[ast.stmt]:
    """The next ``return`` with a value that is sure to come after a statement in its function."""
    if gives_a_value(node):
        return []
    below: ast.AST = node
    for around in program.above(node):
        for body in bodies(around):
            if below in body:
                for each in body[body.index(below) + 1 :]:
                    if isinstance(each, ast.Return):
                        return [each] if each.value is not None else []
        if isinstance(around, (*SCOPES, ast.Module)):
            break
        below = around
    return []
