# SPDX-License-Identifier: Apache-2.0
"""torch.compile: when it compiles, and whether it does so again and again."""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from types import ModuleType
from typing import Any

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.guard.adapters.torch.torch_state import TorchState
from keepstep.signals.blackbox import BoxPhase

_COMPILE = int(BoxPhase.COMPILE)
STORM = 5
"""Compilations of one function after the first step..."""
RECENT = 8
"""... in so few steps that most of them compile."""
LONGEST_REASON = 400
_CHANGED = lazy_pattern(
    r"(?:tensor )?'?(?:L\[)?'?(?P<name>[\w.]+)'?\]?'? (?P<what>\w[\w ]*?)(?: at index (?P<index>\d+))?"
    r"\. expected (?P<old>[^,]+), actual (?P<new>\S+)",
    most=LONGEST_REASON,
)
_COMPARED = lazy_pattern(
    r"L\['(?P<name>\w+)'\](?P<rest>[^=<>!]*)(?:==|<=|>=|<|>) *(?P<old>[^#\s]+)", most=LONGEST_REASON
)


def hook(state: TorchState, module: ModuleType) -> None:
    """Uses torch's own callbacks; the guard's thread reads from torch's records what was compiled and why."""
    compiling = Compiling(state)
    handler: Any = module.callback_handler
    handler.register_start_callback(state.session.guarded("compilation", compiling.began))
    handler.register_end_callback(state.session.guarded("compilation", compiling.ended))
    state.session.pulse.every(1.0, "recompilation", compiling.look)


class Compiling:
    """Counts compilations by function."""

    def __init__(self, state: TorchState) -> None:
        self._state, self._session = state, state.session
        self._before: int | None = None
        self._at: deque[int] = deque(maxlen=64)
        """The step counts at which it compiled."""
        self._fresh = False
        self._seen: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._reasons: dict[str, list[str]] = {}
        self._seconds: dict[str, float] = {}
        self._told: dict[str, int] = {}

    def began(self, *_: Any) -> None:
        if self._state.never_compiled:
            skip = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
            while skip is not None and self._state.never_compiled:
                skip(self._state.never_compiled.pop())
        if threading.get_ident() == self._state.thread:
            self._before = self._session.phase(_COMPILE)

    def ended(self, *_: Any) -> None:
        if self._before is not None:
            self._session.phase(self._before)
            self._before = None
        self._at.append(self._session.steps)
        self._fresh = True

    def look(self) -> None:
        """Called now and then by the guard's thread."""
        if not self._fresh:
            return
        self._fresh = False
        module: Any = sys.modules.get("torch._dynamo.utils")
        if module is None:
            return
        for each in module.get_compilation_metrics():
            self._take(each, module)
        recent = [step for step in self._at if step and step > self._at[-1] - RECENT]
        if len(set(recent)) <= RECENT // 2:
            return
        for function, count in self._counts.items():
            if count >= STORM and count >= 2 * self._told.get(function, 0):
                self._told[function] = count
                self._tell(function, count)

    def _take(self, found: Any, module: Any) -> None:
        number, name = str(getattr(found, "compile_id", "")), getattr(found, "co_name", None)
        if not name or not number or number in self._seen or getattr(found, "is_forward", True) is False:
            return
        self._seen.add(number)
        place = f"{name} ({str(found.co_filename).rpartition('/')[2]}:{found.co_firstlineno})"
        reason = getattr(found, "recompile_reason", None) or _reason_of(found, module)
        if "/" in number and number.rpartition("/")[2].partition("_")[0].strip("[]() ") == "0":
            return  # the first time
        self._counts[place] += 1
        self._seconds[place] = float(getattr(found, "entire_frame_compile_time_s", None) or 0.0)
        if reason:
            self._reasons.setdefault(place, []).append(str(reason)[:LONGEST_REASON])

    def _tell(self, function: str, count: int) -> None:
        reason = what_changes(self._reasons.get(function, []))
        fields = {
            "function": function,
            "count": count,
            "reason": reason,
            "seconds": round(self._seconds[function], 3),
            "storm": True,
        }
        self._session.note("Recompiling", fields, f"torch.compile compiled {function} {count} times: {reason}")
        self._session.say(f"torch.compile compiles {function} again and again ({count} times so far): {reason}")


def _reason_of(found: Any, module: Any) -> str | None:
    """Older versions keep the reasons by code."""
    for code, reasons in list(getattr(module, "guard_failures", {}).items()):
        same = code.co_name == found.co_name and code.co_firstlineno == found.co_firstlineno
        if same and reasons:
            return str(reasons[-1])
    return None


def what_changes(reasons: list[str]) -> str | None:
    """The argument that keeps changing, with its values, from torch's reasons."""
    values: dict[str, list[str]] = {}
    for reason in reasons:
        for found in _CHANGED.finditer(reason):
            what = found["name"] + (f" size {found['index']}" if found["index"] else f" {found['what']}")
            values.setdefault(what, []).append(found["new"].rstrip(".,;"))
        for found in _COMPARED.finditer(reason):
            values.setdefault(found["name"] + found["rest"].rstrip(), []).append("other than " + found["old"])
    if not values:
        return reasons[-1].splitlines()[0] if reasons else None
    what, seen = max(values.items(), key=lambda item: len(item[1]))
    return f"{what} keeps changing: {', '.join(dict.fromkeys(seen[-8:]))}"
