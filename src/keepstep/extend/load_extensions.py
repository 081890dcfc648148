# SPDX-License-Identifier: Apache-2.0
"""Load what the user added. Python runs only from installed packages and from folders the user named or trusts."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keepstep.base.wording import count, shorten
from keepstep.errors import UserError
from keepstep.extend.rule_folders import (
    CONFIG,
    USERS,
    Unusable,
    found_upwards,
    named_by_file,
    named_by_stranger,
    named_by_user,
    read_toml,
    user_folder,
)
from keepstep.model.evidence import Coverage, CoverageState
from keepstep.model.rule import Rule, rules_in
from keepstep.parse.scan.block import Block
from keepstep.parse.scan.signature import Signature

if TYPE_CHECKING:
    from keepstep.extend.search_apart import SearchChild

GROUP = "keepstep.rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """What was added, and what could not be."""

    rules: tuple[Rule, ...] = ()
    signatures: tuple[Signature, ...] = ()
    blocks: tuple[Block, ...] = ()
    coverage: tuple[Coverage, ...] = ()


@dataclass
class _LoadedRules:
    taken_by_others: Iterable[str]
    rules: list[Rule] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)
    child: SearchChild | None = None

    @cached_property
    def taken(self) -> set[str]:
        """Asked only if something was added: finding the ids in use means loading all rules."""
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
    config: Path | None = None,
    *,
    folders: Sequence[Path] = (),
    start: Path | None = None,
    taken: Iterable[str] = (),
    installed: bool = True,
) -> Extensions:
    """Everything the user adds. ``config`` and ``folders`` are what the user named, ``taken`` the rule ids in use.

    Raises ``UserError`` if something named cannot be used.
    """
    gathered = _LoadedRules(taken)
    if installed:
        _load_installed(gathered)
    for folder in (*_named(folders), *_of_user(gathered)):
        _load_folder(folder, gathered, named=True)
    if config is not None:
        folder_named = named_by_file(config)
        if folder_named is not None:
            _load_folder(folder_named, gathered, named=True)
    else:
        with contextlib.suppress(FileNotFoundError):  # the current folder is gone
            _load_found(start or Path.cwd(), gathered)
    return Extensions(
        rules=tuple(gathered.rules),
        signatures=tuple(gathered.signatures),
        blocks=tuple(gathered.blocks),
        coverage=tuple(gathered.coverage),
    )


def _named(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"no such folder of rules: {folder}")
        yield folder.resolve()


def _of_user(gathered: _LoadedRules) -> list[Path]:
    """Folders named in the user's own settings."""
    try:
        return named_by_user()
    except Unusable as wrong:
        gathered.complain(f"{user_folder()}/{USERS}", str(wrong))
        return []


def _load_found(start: Path, gathered: _LoadedRules) -> None:
    """The nearest usable ``keepstep.toml``: the user did not name it, so it runs no Python."""
    for path in found_upwards(start):
        try:
            folder = named_by_stranger(path)
        except Unusable as wrong:
            gathered.complain(str(path), f"skipped: {wrong}")
            continue
        if folder is not None:
            _load_folder(folder, gathered, named=False)
        return


def _load_folder(folder: Path, gathered: _LoadedRules, *, named: bool) -> None:
    if folder in gathered.folders:
        return
    gathered.folders.add(folder)
    try:
        paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".py", ".toml")]
        paths = [path for path in paths if not path.name.startswith((".", "_")) and path.name != CONFIG]
    except OSError as error:
        gathered.complain(str(folder), error.strerror or "it cannot be read")
        return
    if any(path.suffix == ".py" for path in paths):
        _add_python(folder, [path for path in paths if path.suffix == ".py"], gathered, named=named)
    for path in paths:
        if path.suffix == ".toml":
            _add_signatures(folder, path, gathered, named=named)


def _add_python(folder: Path, paths: Sequence[Path], gathered: _LoadedRules, *, named: bool) -> None:
    from keepstep.extend import python_rules, trusted_folders

    def left_out(error: OSError) -> None:
        gathered.complain(str(error.filename or folder), error.strerror or "it cannot be read")

    try:
        files = trusted_folders.python_files(folder, left_out if named else None)
    except OSError as error:
        left_out(error)
        return
    except trusted_folders.TooMuchPython as error:
        gathered.complain(str(folder), str(error))
        return
    why_not = None if named else trusted_folders.why_not(folder, files)
    if why_not is not None:
        how = f"read {_them(paths)}, then allow it with `keepstep rules trust {shlex.quote(str(folder))}`"
        what = f"{count(len(paths), 'Python file')} in {folder}"
        gathered.coverage.append(Coverage(what=what, state=CoverageState.NOT_CHECKED, why=f"not run: {why_not}; {how}"))
        return
    for path in paths:
        data = files.get(path.name)
        if data is None and path.is_symlink():
            gathered.complain(
                str(path), "it is a link that leads out of the folder" if _leads_out(folder, path) else "it is a link"
            )
        if data is None:
            continue
        try:
            gathered.add_module(python_rules.run(path, data), str(path))
        except python_rules.Failed as failed:
            gathered.complain(f"{path}{failed.where}", str(failed))


def _them(paths: Sequence[Path]) -> str:
    return paths[0].name if len(paths) == 1 else "them"


def _leads_out(folder: Path, path: Path) -> bool:
    return not path.resolve().is_relative_to(folder)


def _add_signatures(folder: Path, path: Path, gathered: _LoadedRules, *, named: bool) -> None:
    from keepstep.extend.search_apart import SearchChild
    from keepstep.extend.toml_signatures import OwnSignature, read_signatures

    gathered.child = gathered.child or SearchChild()
    if _leads_out(folder, path):
        gathered.complain(str(path), "it is a link that leads out of the folder")
        return
    try:
        document = read_toml(path, own=not named)
    except OSError as error:
        gathered.complain(str(path), error.strerror or "it cannot be read")
        return
    except Unusable as wrong:
        gathered.complain(str(path), str(wrong))
        return
    for read in read_signatures(document, gathered.taken, gathered.child):
        if isinstance(read, OwnSignature):
            gathered.add_rule(read.rule, str(path))
            gathered.signatures.append(read.signature)
        else:
            gathered.complain(str(path), read)


def _load_installed(gathered: _LoadedRules) -> None:
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
    """Whether any installed package may name rules: asking the standard library takes longer than reading most logs."""
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


def _modules(loaded: object, gathered: _LoadedRules, where: str) -> Iterator[ModuleType]:
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
