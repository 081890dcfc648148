# SPDX-License-Identifier: Apache-2.0
"""Load what the user added. Python is run only from the folder that was named or from installed packages."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from keepstep.core.evidence import Coverage, CoverageState
from keepstep.core.rule import Rule, rules_in
from keepstep.core.wording import shorten
from keepstep.errors import UserError
from keepstep.parse.block import Block
from keepstep.parse.signature import Signature

GROUP = "keepstep.rules"
CONFIG = "keepstep.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """What was added, and what could not be."""

    rules: tuple[Rule, ...] = ()
    signatures: tuple[Signature, ...] = ()
    blocks: tuple[Block, ...] = ()
    coverage: tuple[Coverage, ...] = ()


@dataclass
class _Gathered:
    taken_by_others: Iterable[str]
    rules: list[Rule] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)

    @cached_property
    def taken(self) -> set[str]:
        """Asked only where something was added: to know the ids in use, all rules have to be loaded."""
        return set(self.taken_by_others)

    def complain(self, where: str, why: str) -> None:
        what = f"your rules in {where}"
        self.coverage.append(Coverage(what=what, state=CoverageState.UNAVAILABLE, why=shorten(why, 300)))

    def add_rule(self, rule: Rule, where: str) -> None:
        if rule.id in self.taken:
            self.complain(where, f"the rule id {rule.id} is taken; give {rule.name} another one")
            return
        self.taken.add(rule.id)
        self.rules.append(rule)

    def add_module(self, module: ModuleType, where: str) -> None:
        """Rules and tables of one module."""
        for rule in vars(module).values():
            if isinstance(rule, Rule) and rule not in self.rules:
                self.add_rule(rule, where)
        self.signatures += self._table(module, "SIGNATURES", Signature, where)
        self.blocks += self._table(module, "BLOCKS", Block, where)

    def _table(self, module: ModuleType, name: str, kind: type, where: str) -> list[Any]:
        table = getattr(module, name, ())
        if not isinstance(table, tuple | list) or not all(isinstance(row, kind) for row in table):
            self.complain(where, f"{name} is not a tuple of {kind.__name__.lower()}(...)")
            return []
        return list(table)


def load_extensions(
    config: Path | None = None, *, start: Path | None = None, taken: Iterable[str] = (), installed: bool = True
) -> Extensions:
    """All that the user adds. ``taken``: rule ids in use. Raises ``UserError`` for a wrong ``keepstep.toml``."""
    gathered = _Gathered(taken)
    if installed:
        _load_installed(gathered)
    found = config or find_config(start or Path.cwd())
    if found is not None:
        folder = read_config(found)
        if folder is not None:
            _load_folder(folder, found, gathered, named=config is not None)
    return Extensions(
        rules=tuple(gathered.rules),
        signatures=tuple(gathered.signatures),
        blocks=tuple(gathered.blocks),
        coverage=tuple(gathered.coverage),
    )


def find_config(start: Path) -> Path | None:
    """The nearest ``keepstep.toml`` from a folder upwards."""
    for folder in (start, *start.parents):
        path = folder / CONFIG
        if path.is_file():
            return path
    return None


def read_config(path: Path) -> Path | None:
    """The folder of rules that a ``keepstep.toml`` names, if any."""
    try:
        settings = _read_toml(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    rules = settings.get("rules", {})
    if not isinstance(rules, dict) or not isinstance(rules.get("folder", ""), str):
        raise UserError(f"{path}: [rules] folder has to be a path", hint='[rules]\n        folder = "keepstep-rules"')
    if not rules.get("folder"):
        return None
    folder = (path.parent / Path(rules["folder"]).expanduser()).resolve()
    if not folder.is_dir():
        raise UserError(f"{path}: [rules] folder is no folder: {folder}", hint="make it, or take the line out")
    return folder


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text("utf-8"))


def _load_folder(folder: Path, config: Path, gathered: _Gathered, *, named: bool) -> None:
    if not named:
        stranger = next((path for path in (config, folder) if not _is_own(path)), None)
        if stranger is not None:
            why = f"{stranger} belongs to, or can be changed by, another user; name it with --config to trust it"
            gathered.complain(str(folder), why)
            return
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or path.suffix not in (".py", ".toml") or path.name == CONFIG:
            continue
        if not path.resolve().is_relative_to(folder):
            gathered.complain(str(path), "it is a link out of the folder")
        elif path.suffix == ".py":
            module = _run(path, gathered)
            if module is not None:
                gathered.add_module(module, str(path))
        else:
            _add_signatures(path, gathered)


def _is_own(path: Path) -> bool:
    info = path.stat()
    return info.st_uid in (os.getuid(), 0) and not info.st_mode & 0o002


def _run(path: Path, gathered: _Gathered) -> ModuleType | None:
    name = f"keepstep_own_rules_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        gathered.complain(str(path), "it cannot be loaded")
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        gathered.complain(f"{path}{_line_of(error, path)}", f"{type(error).__name__}: {error}")
        return None
    return module


def _line_of(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f":{error.lineno}"
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _add_signatures(path: Path, gathered: _Gathered) -> None:
    from keepstep.extend.toml_signatures import OwnSignature, read_signatures

    try:
        document = _read_toml(path)
    except (OSError, ValueError) as error:
        gathered.complain(str(path), f"not valid TOML: {error}")
        return
    for read in read_signatures(document, gathered.taken):
        if isinstance(read, OwnSignature):
            gathered.add_rule(read.rule, str(path))
            gathered.signatures.append(read.signature)
        else:
            gathered.complain(str(path), read)


def _load_installed(gathered: _Gathered) -> None:
    if not _may_be_installed():
        return
    from importlib import metadata

    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        where = f"{entry.value} (entry point {entry.name})"
        try:
            modules = list(_modules(entry.load(), gathered, where))
        except (Exception, SystemExit) as error:
            gathered.complain(where, f"{type(error).__name__}: {error}")
            continue
        for module in modules:
            gathered.add_module(module, where)


def _may_be_installed() -> bool:
    """Whether any installed package may name rules: to ask the standard library takes longer than to read most logs."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    heading = f"[{GROUP}]".encode()
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                described = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except FileNotFoundError:
            continue
        except OSError:
            return True
        if any(heading in _entry_points(Path(each)) for each in described):
            return True
    return False


def _entry_points(described: Path) -> bytes:
    try:
        return (described / "entry_points.txt").read_bytes()
    except OSError:
        return b""


def _modules(loaded: object, gathered: _Gathered, where: str) -> Iterator[ModuleType]:
    if isinstance(loaded, Rule):
        gathered.add_rule(loaded, where)
    elif isinstance(loaded, ModuleType):
        yield loaded
        if hasattr(loaded, "__path__"):
            rules_in(loaded)  # imports all of it
            inside = loaded.__name__ + "."
            yield from [module for name, module in sorted(sys.modules.items()) if name.startswith(inside)]
    else:
        gathered.complain(where, f"names a {type(loaded).__name__}, not a rule, module or package")
