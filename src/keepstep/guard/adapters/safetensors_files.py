# SPDX-License-Identifier: Apache-2.0
"""Files of safetensors, of whichever framework: recorded when they are saved, looked at before they are loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from keepstep.guard.import_hook import after_import

if TYPE_CHECKING:
    from keepstep.guard.protocols import MarksPhases

PART = "files of safetensors"
FLAVOURS = ("torch", "numpy", "flax", "tensorflow")


def watch(session: MarksPhases) -> None:
    """Wait for the library; nothing is imported here."""

    def watch_package(module: Any) -> None:
        with session.part(PART):
            _wrap(module, "safe_open", session.ledger.loads(_first))

    def watch_flavour(module: Any) -> None:
        with session.part(PART):
            saves = session.ledger.saves("safetensors", _writer, lambda tensors, filename, *args, **kwargs: filename)
            _wrap(module, "save_file", saves)
            _wrap(module, "save_model", saves)
            _wrap(module, "load_file", session.ledger.loads(_first))

    after_import({"safetensors": watch_package})
    after_import({f"safetensors.{name}": watch_flavour for name in FLAVOURS})


def _first(filename: Any, *args: Any, **kwargs: Any) -> Any:
    return filename


def _writer() -> str:
    return f"safetensors {getattr(sys.modules.get('safetensors'), '__version__', 'of unknown version')}"


def _wrap(module: Any, name: str, make: Any) -> None:
    original = getattr(module, name, None)
    if callable(original) and not hasattr(original, "_keepstep"):
        wrapper = make(original)
        if isinstance(original, type):
            wrapper = _still_a_class(original, wrapper)
        wrapper._keepstep = True
        setattr(module, name, wrapper)


def _still_a_class(original: type, opened: Any) -> type:
    """For programs that write `safe_open | None`, or ask for its instances: it cannot be derived from."""

    class Kind(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return opened(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, original)

    shown = {"__doc__": original.__doc__, "__module__": original.__module__, "__wrapped__": original}
    return Kind(original.__name__, (), shown)
