# SPDX-License-Identifier: Apache-2.0
"""A scenario of the lab as the program that a user would have: scripts, data and one command line, no hooks.

What the fault does inside a rank becomes a function of `mistakes.py`, called where the job has its hook; what it did to
the script or to the data before the start is there as it was left. Nothing acts from outside.
"""

from __future__ import annotations

import ast
import filecmp
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from keepstep_lab import data, faults, supervised, sweeper
from keepstep_lab.faults._script import ScriptMistake
from keepstep_lab.faults.inputs import _Waits
from keepstep_lab.launch import INHERITED, prepared
from keepstep_lab.run import NotForRun, Unproven
from keepstep_lab.scenario import Scenario

MODULE = "mistakes"
LONG = {"--steps": 100, "--epochs": 20}
"""A scenario that is struck from outside trains for hours; a mended program is to end."""
OURS = (*INHERITED, "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", sweeper.VARIABLE)


class LeftOut(Exception):
    """Why the scenario is no program."""


def why_left_out(scenario: Scenario) -> str | None:
    """What can be said before anything is made."""
    if scenario.healthy:
        return "healthy"
    if scenario.hosts:
        return "several hosts"
    if scenario.needs or scenario.limits:
        return "needs root, a GPU, a control group or limits"
    there = supervised.supervised(_plain(scenario))
    if there is None or there.later:
        return "not on one host, or nothing fails"
    fault = faults.load(scenario.fault) if scenario.fault else None
    if hasattr(fault, "outside") and not isinstance(fault, ScriptMistake | _Waits):
        return "the fault comes from outside"
    return None


def write_program(scenario: Scenario, folder: Path) -> None:
    """`run.txt`, `LABEL.json`, the scripts and the data. Raises :class:`LeftOut`."""
    try:
        with prepared(_plain(scenario)) as run:
            supervised.command(run)
            words = _not_for_hours(run.args[0])
            lab = ("KEEPSTEP_LAB_", *supervised.OF_A_RANK)
            env = {k: v for k, v in run.env[0].items() if k not in OURS and not k.startswith(lab)}
            if any(str(run.work) in each for each in [*words, *env.values()]):
                raise LeftOut("it needs a file of the lab's")
            script = (run.app / "train.py").read_text()
            if not all(each.is_file() for each in run.data.iterdir()):
                raise LeftOut("its data is no file")
            shutil.copytree(run.data, folder / "data")
    except (NotForRun, Unproven) as error:
        raise LeftOut(str(error)) from error
    label: dict[str, Any] = {"cause": sorted(scenario.accepted), "root_ranks": _roots(scenario), "mend": []}
    fault = faults.load(scenario.fault) if scenario.fault else None
    script, called = _without_hooks(script, fault, scenario)
    if called:
        module = _functions(fault, called, scenario)
        (folder / f"{MODULE}.py").write_text(ast.unparse(module) + "\n")
        label["mend"] += [_returns_at_once(each) for each in module.body if _name(each) in called.values()]
    if isinstance(fault, ScriptMistake):
        label["mend"] += [{"file": "train.py", "old": wrong, "new": right} for right, wrong in fault.edits]
    (folder / "train.py").write_text(script)
    healthy = folder / "LABEL-data"
    healthy.mkdir()
    files = [each.name for each in data.write(scenario.framework, healthy, shards=scenario.ranks)]
    if filecmp.cmpfiles(healthy, folder / "data", files, shallow=False)[0] != files:
        label["data"] = "LABEL-data"
    else:
        shutil.rmtree(healthy)
    (folder / "LABEL.json").write_text(json.dumps(label, indent=1) + "\n")
    (folder / "run.txt").write_text(_line(scenario, words, env) + "\n")


def _plain(scenario: Scenario) -> Scenario:
    """Of a launcher only the name is left: `torchrun` in the command line."""
    return replace(scenario, launcher="plain", clocks=())


def _roots(scenario: Scenario) -> list[int] | None:
    found = scenario.inside_ranks or scenario.root_ranks
    return list(found) if found is not None else None


def _not_for_hours(words: list[str]) -> list[str]:
    before = ["", *words]
    return [
        str(min(int(word), LONG[name])) if name in LONG else word for name, word in zip(before, words, strict=False)
    ]


def _line(scenario: Scenario, words: list[str], env: dict[str, str]) -> str:
    roles = scenario.roles
    how = ["-n", str(sum(role in ("chief", "worker") for role in roles) or scenario.ranks)]
    how += ["--ps", str(roles.count("ps"))] if "ps" in roles else ["--chief"] if "chief" in roles else []
    start = ["keepstep", "run", *how, "--", "python"]
    if scenario.framework == "torch" and scenario.launcher.startswith("torchrun"):
        start = ["torchrun", "--standalone", f"--nproc-per-node={scenario.ranks}"]
    return shlex.join([*(f"{name}={value}" for name, value in env.items()), *start, "train.py", *words])


def _without_hooks(text: str, fault: Any, scenario: Scenario) -> tuple[str, dict[str, str]]:
    """The script, and which methods of the fault it calls under which names."""
    text = text.replace('os.environ.get("KEEPSTEP_LAB_DATA", "data")', '"data"')
    called: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def span(node: ast.AST) -> tuple[int, int]:
        # the jobs are ASCII, so columns are characters
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def source(node: ast.AST) -> str:
        begin, end = span(node)
        return text[begin:end]

    changes: list[tuple[int, int, str]] = []
    tree = ast.parse(text)
    alone = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if any(_is_hook(each, "change") for each in node.args):  # handed on, as to `keepstep.retry`
            changes.append((*span(node), source(node.args[2])))
            continue
        if not (_is_hook(node.func, "at") or _is_hook(node.func, "change")):
            continue
        is_at = _is_hook(node.func, "at")
        hook = "at" if is_at else f"change_{ast.literal_eval(node.args[0])}"
        if hasattr(fault, hook):
            called[hook] = scenario.fault if hook == "at" or hook not in called else called[hook]  # type: ignore[assignment]
            rest = node.args if is_at else node.args[1:]
            changes.append((*span(node), f"{called[hook]}({', '.join(map(source, rest))})"))
        elif id(node) in alone:
            first, last = node.lineno, node.end_lineno or node.lineno
            changes.append((starts[first - 1], starts[last], ""))
        else:
            changes.append((*span(node), source(node.args[1])))
    outer = [each for each in changes if not any(o[0] <= each[0] and each[1] <= o[1] and o != each for o in changes)]
    for begin, end, new in sorted(outer, reverse=True):
        text = text[:begin] + new + text[end:]
    names = ", ".join(sorted(set(called.values())))
    text = text.replace("import faults as fault\n", f"from {MODULE} import {names}\n" if called else "")
    if "fault." in text.replace("default.", "") or "KEEPSTEP_LAB" in text:
        raise LeftOut("its script calls the lab in a way that is not known")
    if len(set(called.values())) != len(called):
        raise LeftOut("its fault has several hooks")
    return text, called


def _is_hook(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and getattr(node.value, "id", "") == "fault"


def _functions(fault: Any, called: dict[str, str], scenario: Scenario) -> ast.Module:
    """The methods that are called as functions, with what they need of their class and module."""
    modules = [ast.parse(Path(sys.modules[each.__module__].__file__ or "").read_text()) for each in _kinds(fault)]
    own = {}
    for kind, module in zip(_kinds(fault), modules, strict=True):
        body = next(node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
        own |= {name: node for node in _with_init(body) for name in _bound(node)}
    top = {name: node for module in modules for node in module.body for name in _bound(node)}
    chosen: dict[str, ast.stmt] = {}
    for hook, name in called.items():
        made = ast.fix_missing_locations(_Flat(set(own)).visit(own[hook]))
        made.name = name
        _guard(made, hook == "at", scenario)
        chosen[name] = made
    while more := {
        each.id: node
        for chosen_node in chosen.values()
        for each in ast.walk(chosen_node)
        if isinstance(each, ast.Name) and each.id not in chosen and (node := own.get(each.id) or top.get(each.id))
    }:
        for name, node in more.items():
            chosen[name] = ast.fix_missing_locations(_Flat(set(own)).visit(node)) if name in own else _quiet(node)
    used = list({id(node): node for node in chosen.values()}.values())
    imports = [node for node in used if isinstance(node, ast.Import | ast.ImportFrom)]
    if any(isinstance(node, ast.ImportFrom) and node.level for node in imports):
        raise LeftOut("its fault needs the lab")
    for node in imports:
        node.names = [each for each in node.names if (each.asname or each.name).partition(".")[0] in chosen]
    constants = [node for node in used if isinstance(node, ast.Assign | ast.AnnAssign)]
    rest = [node for node in used if node not in imports and node not in constants]
    future = ast.parse("from __future__ import annotations").body
    module = ast.Module([*future, *imports, *constants, *reversed(rest)], [])
    if "KEEPSTEP" in ast.unparse(module):
        raise LeftOut("its fault needs the lab")
    return ast.fix_missing_locations(module)


def _kinds(fault: Any) -> list[type]:
    """Bases first."""
    return [each for each in reversed(type(fault).__mro__) if each not in (object, faults.Fault)]


def _with_init(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What `__init__` sets is the class's too: there is one of each fault."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for each in node.body:
                if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
                    yield ast.Assign([ast.Name(each.targets[0].attr, ast.Store())], each.value, lineno=0)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
        return [(each.asname or each.name).partition(".")[0] for each in node.names]
    return []


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else ""


class _Flat(ast.NodeTransformer):
    """A method as a function, without what tells the lab."""

    def __init__(self, own: set[str]) -> None:
        self.own = own

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        sets = {
            each.attr
            for each in ast.walk(node)
            if isinstance(each, ast.Attribute)
            and isinstance(each.ctx, ast.Store)
            and getattr(each.value, "id", "") == "self"
        }
        if node.args.args and node.args.args[0].arg == "self":
            node.args.args.pop(0)
        self.generic_visit(node)
        if sets:
            node.body.insert(_after_docstring(node), ast.Global(sorted(sets)))
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in self.own:
            return ast.Name(node.attr, node.ctx)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        tells = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "tell"
        return None if tells else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body else None


def _quiet(node: ast.stmt) -> ast.stmt:
    """Something of the fault's module: a class keeps its methods' `self`."""
    for each in ast.walk(node):
        for name in ("body", "orelse"):
            if isinstance(inner := getattr(each, name, None), list):
                kept = [one for one in inner if not ast.unparse(one).startswith("tell(")]
                setattr(each, name, kept or ([ast.Pass()] if inner else []))
    return node


def _after_docstring(node: ast.FunctionDef) -> int:
    return int(ast.get_docstring(node) is not None)


def _guard(node: ast.FunctionDef, is_at: bool, scenario: Scenario) -> None:
    """The function says itself when it strikes."""
    if not is_at:
        node.args.args += [ast.arg("step", ast.Name("int")), ast.arg("rank", ast.Name("int"))]
    ranks, conditions = scenario.strike_ranks, []
    if ranks is not None:
        conditions.append(f"rank != {ranks[0]}" if len(ranks) == 1 else f"rank not in {ranks}")
    if is_at or scenario.strike_step:
        conditions.append(f"step {'!=' if is_at else '<'} {scenario.strike_step}")
    if conditions:
        value = "" if is_at else f" {node.args.args[0].arg}"
        at = _after_docstring(node) + any(isinstance(each, ast.Global) for each in node.body[:2])
        node.body[at:at] = ast.parse(
            f"if {' or '.join(conditions)}: return{value}".replace(": return", ":\n    return")
        ).body


def _returns_at_once(node: ast.stmt) -> dict[str, str]:
    """The mend of a function that strikes: it does nothing."""
    assert isinstance(node, ast.FunctionDef)
    old = ast.unparse(node)
    names = [each.arg for each in node.args.args]
    value = names[0] if names[:2] != ["step", "rank"] else ""
    lines = old.splitlines(keepends=True)
    first = len(ast.unparse(ast.FunctionDef(**{**vars(node), "body": [ast.Pass()]})).splitlines()) - 1
    new = "".join([*lines[:first], textwrap.indent(f"return {value}".rstrip() + "\n", "    "), *lines[first:]])
    return {"file": f"{MODULE}.py", "old": old, "new": new}
