# SPDX-License-Identifier: Apache-2.0
"""One collective that a script issued: its form, shape and type, its number in the group, and the script's line."""

from __future__ import annotations

import math
import os
from types import CodeType
from typing import Any, NamedTuple

from keepstep.base.wording import called
from keepstep.signals.collective_history import packed


class Form(NamedTuple):
    """Where a function takes its tensor, group and reduction, and what must be the same on every rank."""

    tensor: tuple[int, str] | None
    group: int
    reduction: int | None = None
    same: str = "sizes"
    """``sizes``: operation, type and number of elements; ``bytes``: operation and bytes; ``type``: operation and type;
    ``objects``: only the operation, which issues several below it."""


class Shaped:
    """What collectives of one operation, shape, type and group share: worked out once, then looked up."""

    def __init__(self, operation: str, form: Form, tensor: Any, reduction: Any, group: str) -> None:
        self.operation, self.form, self.group = operation, form, group
        self.shape: tuple[int, ...] | None = tuple(tensor.shape) if tensor is not None else None
        self.dtype = str(tensor.dtype).rpartition(".")[2] if tensor is not None else ""
        self.itemsize = int(tensor.element_size()) if tensor is not None else 1
        self.reduction = str(reduction or "").rpartition(".")[2]
        self.plan = 0
        self.packed = packed(operation, self.dtype, self.elements if self.dtype else 0)

    @property
    def elements(self) -> int:
        return math.prod(self.shape or ())

    @property
    def words(self) -> str:
        text = self.operation if self.shape is None else f"{self.operation} {self.dtype}{list(self.shape)}"
        return text + (f" {self.reduction}" if self.reduction.isupper() and self.reduction != "SUM" else "")

    @property
    def key(self) -> str:
        """What must be the same on every rank."""
        if self.form.same == "bytes":
            return f"{self.operation} {self.elements * self.itemsize} bytes"
        if self.form.same == "type" or self.shape is None:
            return f"{self.operation} {self.dtype}".rstrip()
        return f"{self.operation} {self.dtype}x{self.elements} {self.reduction}"


class IssuedCollective:
    """One collective. Holds no tensor."""

    __slots__ = ("code", "failed", "last", "lineno", "number", "running", "sequence", "shaped")

    def __init__(self, shaped: Shaped, number: int, sequence: int, code: CodeType | None, lineno: int) -> None:
        self.shaped = shaped
        self.code, self.lineno = code, lineno
        self.number = number
        """Its number among the script's collectives on its group."""
        self.sequence = sequence
        """Its number in the group."""
        self.last = sequence + (shaped.form.same == "objects")
        """The number of the last one it issues: Python objects take two, one for sizes and one for the objects."""
        self.running = True
        self.failed = False

    @property
    def line(self) -> str:
        """Where the script issued it."""
        code = self.code
        return f"{os.path.basename(code.co_filename)}:{self.lineno}, in {called(code.co_name)}" if code else ""
