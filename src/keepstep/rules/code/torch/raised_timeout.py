# SPDX-License-Identifier: Apache-2.0
"""COD119: the time-out of the process group is hours long."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from keepstep.model.facts import CodeAssigned, CodeCall, Value
from keepstep.rules.api import Cause, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code.torch._torch import INIT

LONG_S = 2 * 3600
_UNITS = {
    "days": 86400,
    "hours": 3600,
    "minutes": 60,
    "seconds": 1,
    "weeks": 604800,
    "milliseconds": 0.001,
    "microseconds": 0.000001,
}
_ORDER = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
"""Of the arguments of ``timedelta``."""
_STRATEGIES = ("DDPStrategy", "FSDPStrategy", "DeepSpeedStrategy", "InitProcessGroupKwargs", "init_distributed")


def _seconds(known: ProjectFacts, place: Call, timeout: Value | None) -> float | None:
    """The length of a time-out that is written as a ``timedelta``, here or in a variable."""
    if timeout is None:
        return None
    texts = [timeout.text]
    if timeout.text.isidentifier():
        texts = [
            each.fact.value.text for each in known.assigned_in_file(place) if _is_value_of(each, place, timeout.text)
        ]
    found = [_of_timedelta(text) for text in texts]
    return found[0] if len(found) == 1 else None


def _is_value_of(assigned: Evidence[CodeAssigned], place: Call, name: str) -> bool:
    function = assigned.fact.function
    is_seen = function == place.fact.function or function.endswith(".<module>")
    return assigned.fact.target == name and is_seen


def _of_timedelta(text: str) -> float | None:
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("timedelta"):
        return None
    named = {each.arg or "": each.value for each in node.keywords}
    named.update(zip(_ORDER, node.args, strict=False))
    parts = [(unit, _number(value)) for unit, value in named.items()]
    if any(number is None or unit not in _UNITS for unit, number in parts):
        return None
    return sum(_UNITS[unit] * number for unit, number in parts if number is not None)


def _number(node: ast.expr) -> float | None:
    """A number, or a product of numbers."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if left is not None and right is not None else None
    return None


def _timeouts(known: ProjectFacts) -> Iterator[tuple[Call, float]]:
    """The calls that set a time-out, with the seconds of it."""
    for each in (*known.calls(INIT, "torch.distributed.new_group"), *known.methods(*_STRATEGIES)):
        seconds = _seconds(known, each, each.fact.argument("timeout"))
        if seconds is not None:
            yield each, seconds
    for each in known.methods("TrainingArguments", "Seq2SeqTrainingArguments"):
        given = each.fact.argument("ddp_timeout")
        if given is not None and given.literal is not None and given.literal.isdecimal():
            yield each, float(given.literal)


@rule(id="COD119", cause=Cause.NETWORK_TIMEOUT_SLOW, needs=(CodeCall,), severity=Severity.NOTE, preview=True)
def raised_timeout(seen: EvidenceSet) -> Findings:
    """The process group's time-out is raised to hours.

    ## What it looks like
    ```python
    from datetime import timedelta
    import torch.distributed as dist

    def setup():
        dist.init_process_group("gloo", timeout=timedelta(hours=5))
    ```

    ## Why it happens
    A long time-out mostly hides that one rank does something slow (tokenizing, downloading, saving) while the
    others wait in a collective. When a rank dies, all the others now hang for hours before anybody hears of it.

    ## How we know
    The time-out in the call is two hours or more.

    ## What to do
    ```python
    from datetime import timedelta
    import torch.distributed as dist

    def setup():
        dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    ```

    ## When this is wrong
    When one collective really has to wait that long.
    """
    known = program(seen)
    for each, seconds in _timeouts(known):
        if seconds >= LONG_S:
            yield Found(
                title="a hang would go unnoticed for hours",
                because=f"the time-out is {seconds / 3600:.0f} hours: when a rank is stuck, the others wait that long",
                evidence=(each,),
                fixes=(
                    Fix(do="do the slow work before the group is formed, or on all ranks; keep the usual time-out"),
                ),
            )
