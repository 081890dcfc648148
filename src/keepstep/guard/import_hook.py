# SPDX-License-Identifier: Apache-2.0
"""Call something when a module has been imported, without importing it and without changing how it is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Then = Callable[[ModuleType], None]


class _Loader:
    """The module's own loader, followed by a call. The module itself never sees it."""

    def __init__(self, loader: Any, then: Then) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._then(module)
        except Exception as error:  # the module is fine
            why = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"keepstep: the guard could not hook {module.__name__} ({why})\n")

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._loader, name)


class ImportFinder:
    """The first of the finders: it asks the others, and only adds the call afterwards."""

    def __init__(self, then: dict[str, Then]) -> None:
        self._then = dict(then)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._then:
            return None
        spec = _others(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, self._imported)  # type: ignore[assignment]
        return spec

    def _imported(self, module: ModuleType) -> None:
        """Only now: a program may ask for a spec (`importlib.util.find_spec`) and import the module later, or never."""
        then = self._then.pop(module.__name__, None)
        if then is not None:
            then(module)


def _others(name: str, path: Any, target: Any) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if not isinstance(finder, ImportFinder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def after_import(then: dict[str, Then]) -> None:
    """``then[name](module)`` as soon as the module ``name`` is there, which may be now."""
    waiting = {}
    for name, call in then.items():
        module = sys.modules.get(name)
        if module is not None:
            call(module)
        else:
            waiting[name] = call
    if waiting:
        sys.meta_path.insert(0, ImportFinder(waiting))
