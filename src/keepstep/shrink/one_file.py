# SPDX-License-Identifier: Apache-2.0
"""Several files as one, where that is safe: modules take the place of the statements that import their names."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping

SELF = ("__file__", "__name__", "__package__", "__all__")


def in_one(texts: Mapping[str, str], script: str) -> str | None:
    """The text of one file that does the same; None if a module is used in a way that does not allow it."""
    texts = imported(texts, script)
    trees = {name: ast.parse(text) for name, text in texts.items()}
    dotted = {name: name.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__") for name in texts}
    modules = {dotted[name]: name for name in texts if name != script}
    if not modules or not _fits(trees, modules, script):
        return None
    out: list[str] = []
    done: set[str] = set()

    def add(name: str) -> None:
        lines, at = texts[name].splitlines(), 0
        for node in trees[name].body:
            module = modules.get(_absolute(node, name)) if isinstance(node, ast.ImportFrom) else None
            if module is None:
                continue
            out.extend(lines[at : node.lineno - 1])
            at = node.end_lineno or node.lineno
            if module not in done:
                done.add(module)
                add(module)
        out.extend(lines[at:])
        out.append("")

    add(script)
    text = _tidy(out)
    return text if done == set(modules.values()) else None


def imported(texts: Mapping[str, str], script: str) -> dict[str, str]:
    """The script, and the files that it imports, or names to start them; all, if something is imported by a text."""
    found, waiting = {script: texts[script]}, [script]
    while waiting:
        name = waiting.pop()
        for node in ast.walk(ast.parse(texts[name])):
            if (isinstance(node, ast.Name) and node.id == "__import__") or getattr(node, "attr", "") == "import_module":
                return dict(texts)
            if isinstance(node, ast.Constant) and str(node.value).endswith(".py"):
                named = [path for path in texts if os.path.basename(path) == os.path.basename(str(node.value))]
                waiting += [path for path in named if path not in found]
                found |= {path: texts[path] for path in named}
            asked = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                module = _absolute(node, name)
                asked = [module, *(f"{module}.{each.name}" for each in node.names)]
            parts = [each.split(".") for each in asked]
            dotted = {os.sep.join(each[: n + 1]) for each in parts for n in range(len(each))}
            for path in (f"{each}{end}" for each in dotted for end in (".py", f"{os.sep}__init__.py")):
                if path in texts and path not in found:
                    found[path] = texts[path]
                    waiting.append(path)
    return found


def _absolute(node: ast.ImportFrom, file: str) -> str:
    """The module that a file imports from: `from .model import Net` in `package/train.py` means `package.model`."""
    folders = file.split(os.sep)[: -node.level] if node.level else []
    return ".".join([*folders, *([node.module] if node.module else [])])


def _fits(trees: Mapping[str, ast.Module], modules: Mapping[str, str], script: str) -> bool:
    bound: dict[str, str] = {}
    tops = {each.partition(".")[0] for each in modules}
    future = _future(trees[script])
    for name, tree in trees.items():
        own = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and any(each.name.partition(".")[0] in tops for each in node.names):
                return False
            if isinstance(node, ast.ImportFrom):
                module = _absolute(node, name)
                local = node.level > 0 or module.partition(".")[0] in tops
                plain = all(
                    each.asname is None and each.name != "*" and f"{module}.{each.name}" not in modules
                    for each in node.names
                )
                if local and not (module in modules and plain and id(node) in own):
                    return False
                if node.module == "__future__" and not _future(tree) <= future:
                    return False
            if name != script and isinstance(node, ast.Name) and node.id in SELF:
                return False
        for each, said in _top_names(tree, name, modules):
            if bound.setdefault(each, said) != said:
                return False  # two files mean different things by one name
    return True


def _future(tree: ast.Module) -> set[str]:
    found = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return {each.name for node in found for each in node.names}


def _top_names(tree: ast.Module, file: str, modules: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a file binds at its top, and where from; an import is the same in every file."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = _absolute(node, file) if isinstance(node, ast.ImportFrom) else None
            if module not in modules:
                found += [(each.asname or each.name, f"{module} {each.name} {each.asname}") for each in node.names]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append((node.name, f"{id(tree)}"))
        else:
            stored = [each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            found += [(each.id, f"{id(tree)}") for each in stored]
    return found


def _tidy(lines: list[str]) -> str:
    """Imports once and at the top, at most two blank lines."""
    tree = ast.parse("\n".join(lines))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    taken = {line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    head = list(dict.fromkeys(ast.unparse(node) for node in imports))
    head.sort(key=lambda text: (not text.startswith("from __future__"), text.startswith("from "), text))
    rest = "\n".join(line for number, line in enumerate(lines, 1) if number not in taken).strip("\n")
    while "\n\n\n\n" in rest:
        rest = rest.replace("\n\n\n\n", "\n\n\n")
    return "\n".join(head) + "\n\n\n" * bool(head) + rest + "\n"
