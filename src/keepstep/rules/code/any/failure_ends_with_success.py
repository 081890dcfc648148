# SPDX-License-Identifier: Apache-2.0
"""COD016: a training that fails ends with status 0."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from keepstep.model.facts import CodeCall, CodeHandler
from keepstep.rules.api import Cause, Confidence, Evidence, EvidenceSet, Findings, Fix, Found, Severity, rule
from keepstep.rules.code._asking import Call, ProjectFacts, program
from keepstep.rules.code._steps import trains
from keepstep.rules.code.jax._jax import INIT
from keepstep.rules.code.tensorflow._tensorflow import distributed
from keepstep.rules.code.torch._torch import DDP, FSDP

_BROAD = re.compile(r"\b(Base)?Exception\b|\bRuntimeError\b|\btf\.errors\b")
_EXITS = ("sys.exit", "exit", "quit", "os._exit", "os.abort", "os.kill")
_PRINTS = frozenset(
    "print print_exc print_exception format_exc debug info warning warn error exception critical flush"
    " destroy_process_group write".split()
)


def _only_prints(body: list[ast.stmt]) -> bool:
    """Whether an ``except`` does nothing but print: it neither raises nor leaves a trace of the failure."""
    for each in body:
        if isinstance(each, ast.Pass) or (isinstance(each, ast.Return) and _is_none(each.value)):
            continue
        if not isinstance(each, ast.Expr) or not isinstance(each.value, ast.Call):
            return False
        called = each.value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in _PRINTS:
            return False
    return True


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _swallowing(known: ProjectFacts, path: str) -> Iterator[tuple[int, int]]:
    """The lines of ``try`` and ``except`` where a failure is only printed, one ``except`` of each ``try``."""
    syntax = known.syntax(path)
    for each in ast.walk(syntax) if syntax is not None else ():
        if isinstance(each, ast.Try) and not each.orelse:
            swallow = [
                handler
                for handler in each.handlers
                if (handler.type is None or _BROAD.search(ast.unparse(handler.type))) and _only_prints(handler.body)
            ]
            if swallow:
                yield each.lineno, swallow[-1].lineno  # the last one is the widest


def _is_main(known: ProjectFacts, function: str, hops: int = 3) -> bool:
    """Whether a function is what the process was started for: nothing around it tries again or notices."""
    if function.endswith(".<module>"):
        return True
    declared = known.functions.get(function)
    if declared is not None and any(name.endswith(".spawn") for name in declared.fact.given_to):
        return True
    calls = known.callers(function) if hops else []
    return bool(calls) and all(_is_last(each) and _is_main(known, each.fact.function, hops - 1) for each in calls)


def _is_last(call: Call) -> bool:
    """Whether the caller neither repeats the call nor uses what it returns."""
    return not call.fact.assigned and not any(each.kind in ("for", "while", "try") for each in call.fact.within)


def _is_distributed(seen: EvidenceSet, place: Evidence[CodeHandler]) -> bool:
    known = program(seen)
    several = (DDP, FSDP, INIT, "torch.distributed.init_process_group", "horovod.init")
    return distributed(seen).has_strategy(place.origin.source) or bool(known.among(place, *several))


def _is_noticed(known: ProjectFacts, handler: Evidence[CodeHandler]) -> bool:
    """Whether the function, or the file itself, ends with a status of its own."""
    module = known.files[handler.origin.source].module
    return any(
        name in _EXITS
        for function in (handler.fact.function, f"{module}.<module>")
        for name in known.names_inside(function)
    )


@rule(
    id="COD016",
    cause=Cause.USER_CODE_EXCEPTION,
    needs=(CodeCall, CodeHandler),
    severity=Severity.WARNING,
    confidence=Confidence.SUPPORTED,
)
def failure_ends_with_success(seen: EvidenceSet) -> Findings:
    """An `except` around the training only prints, so a training that failed ends with status 0.

    ## What it looks like
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
    try:
        model.fit(dataset)
    except Exception as error:
        print("training failed", error)
    ```

    ## Why it happens
    Launchers and schedulers know of a failure by the status alone. With 0 they take the rank for done: they do not
    restart it, do not stop the other ranks, which wait for it, and run what was to follow a training that succeeded.

    ## How we know
    The `try` holds the training of a program on several devices or ranks. Its `except` takes any failure, does
    nothing but print, and nothing after it ends the process with another status.

    ## What to do
    ```python
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
    try:
        model.fit(dataset)
    except Exception as error:
        print("training failed", error)
        raise
    ```

    ## When this is wrong
    When somebody reads the output, and the status is of no use.
    """
    known = program(seen)
    places: dict[str, set[tuple[int, int]]] = {}
    for each in known.handlers:
        path = each.origin.source
        if each.fact.raises or path.endswith(".ipynb") or any(b.kind in ("for", "while") for b in each.fact.within):
            continue
        if path not in places:
            places[path] = set(_swallowing(known, path)) if _is_distributed(seen, each) else set()
        if (each.fact.tried, each.origin.line) not in places[path]:
            continue
        tried = known.tried(each)
        step = next((call for call in tried if trains(known, call, 3)), None)
        if step is None or any(call.fact.method == "backward" for call in tried):  # that is COD010
            continue
        if _is_main(known, each.fact.function) and not _is_noticed(known, each):
            yield Found(
                title="a training that fails ends with status 0",
                because=f"`except {each.fact.caught or ''}".rstrip() + f"` only prints what went wrong in"
                f" `{step.fact.text}` (line {step.origin.line}): to the launcher this rank has succeeded",
                evidence=(each, step),
                fixes=(Fix(do="raise again after printing, or end with sys.exit(1)"),),
            )
