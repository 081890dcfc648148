# SPDX-License-Identifier: Apache-2.0
"""Progress: the steps, epochs and bars that training loops print.

These lines are many, so the table is one of its own: it is applied to small logs
and to the ends of large ones only.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.whole_numbers import whole
from keepstep.model.facts.training import StepSeen
from keepstep.parse.scan.lines.digits import ones
from keepstep.parse.scan.signature import Make, Signature

_NUMBER = r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LOSS = lazy_pattern(
    rf"(?i)(?:loss|cross_entropy|\bxent)\b[\"')]{{0,4}}\s{{0,8}}[:=(|\t ]\s{{0,8}}[\"']?(?:tensor\()?(?P<loss>nan|{_NUMBER})"
)
_NOT_TRAINING = lazy_pattern(
    r"(?i)\b(?:Map|Filter|Loading|Download\w*|Tokeniz\w+|Generating|Grouping|Running tokenizer|Casting|Extract\w*|Resolving"
    r"|Fetching|Flattening|Creating|Saving|Sanity|Eval\w*|Valid\w*|Predict\w*|Test\w*|Preprocess\w*|Computing checksums|Processed prompts"
    r"|Upload\w*|Reading|Building|Converting|shards|B/s|tokenizer)\b[^|]{0,80}\d+ ?%?\|"
)
_FAILURE = lazy_pattern(
    r"slurmstepd|\bCANCELLED\b|(?:Error|Exception|Traceback|Timeout|SIGTERM|SIGKILL)\b|\b(?i:fail(?:ed|ure)?|abort\w*|giving up|terminat\w+|killed|resum\w+|restor\w+|assert)\b|^\s*File \""
)
_ALONG = lazy_pattern(
    r"(?i)loss|\bacc|\blr\b|learning.rate|sec|\bit/s|elapsed|token|throughput|images|samples|grad.?norm|perplexity|ppl|reward|time|eta\b|\bfwd\b|\bforward\b"
)


SHORT_S = 0.05
"""Steps shorter than this are timed too coarsely to tell what they waited for."""
_SECONDS = r"\d+\.\d+"
_TIMES = (
    lazy_pattern(
        rf"(?<![\w.])time: ?(?P<whole>{_SECONDS})[^\n]{{0,40}}?[, ](?:last_)?data_time: ?(?P<data>{_SECONDS})"
    ),
    lazy_pattern(rf"\bTime:? +(?P<whole>{_SECONDS})s?[^\n]{{0,80}}?\bData:? +(?P<data>{_SECONDS})"),
    lazy_pattern(rf"Data \(t\): (?P<data>{_SECONDS}) Batch \(t\): (?P<whole>{_SECONDS})"),
)


def _step(match: re.Match[str]) -> StepSeen | None:
    layout = _layout(match.string)
    return None if layout.fails else _seen(match, layout)


def _step_with_company(match: re.Match[str]) -> StepSeen | None:
    return _step(match) if "loss" in match.string or _ALONG.search(match.string) else None


def _seen(match: re.Match[str], layout: _Layout) -> StepSeen:
    groups = match.groupdict()
    step, of = groups.get("step"), groups.get("of")
    loss = groups.get("loss")
    if loss is None and layout.loss is not None:
        loss = match.string[slice(*layout.loss)]
    return StepSeen(
        step=int(step.replace(",", "")) if step else None,
        of=whole(of.replace(",", "")) if of else None,
        loss=_float(loss),
        **_timing(match.string, layout),
        rank=int(groups["rank"]) if groups.get("rank") else None,
    )


_TIMED = lazy_pattern(
    r"(?<![\w./-])(?P<name>[A-Za-z][\w-]*(?: (?:time|cost))?)(?: ?\((?:s|ms|t)\))?\"?(?: ?[:=] ?| +)\"?"
    rf"(?P<value>{_SECONDS}) ?(?P<unit>ms\b|s\b|sec\b)?(?![\d:.%/])"
)
_DATA = frozenset(
    {
        "data",
        "data_time",
        "data-time",
        "dataload",
        "data_load",
        "data_loading",
        "dataload_time",
        "data_loading_time",
        "load_time",
        "loader",
        "reader_cost",
        "avg_reader_cost",
        "dt_data",
        "data_wait",
        "input_wait",
        "batch-generator",
        "batch_generator",
        "get_batch",
        "fetch_time",
        "data time",
        "load time",
    }
)
_WHOLE = frozenset(
    {
        "time",
        "batch_time",
        "iter_time",
        "step_time",
        "batch_cost",
        "avg_batch_cost",
        "dt",
        "iteration_time",
        "total_time",
        "batch time",
        "step time",
        "iter time",
        "iteration time",
    }
)
_FORWARD = frozenset({"fwd", "forward", "forward_time", "forward_microstep", "forward-compute", "fwd_time"})
_AFTER_IT = frozenset(
    {
        "bwd",
        "backward",
        "backward_time",
        "backward_microstep",
        "backward-compute",
        "bwd_time",
        "opt",
        "optim",
        "optimizer",
        "step_microstep",
    }
)
_TALK = frozenset(
    {
        "allreduce",
        "all_reduce",
        "all-reduce",
        "backward_allreduce",
        "backward_allreduce_microstep",
        "backward-params-all-reduce",
        "grads-all-reduce",
        "all-grads-sync",
        "comm",
        "comm_time",
        "communication",
        "sync_time",
        "grad_sync",
        "allreduce_time",
    }
)
_IN_PARTS = lazy_pattern(
    r"(?i)\b(?:data|fwd|forward|reader_cost|batch_cost|dt|allreduce|(?:batch|iter|step|iteration|total)[_ ]time|time:? )"
)
LONGEST = 1_000
"""Characters of a line in which its times are looked for."""
_BAR = lazy_pattern(r"(?<![\d.])(?P<value>\d+(?:\.\d+)?)(?P<unit>ms|us|s)/(?:step|sample)\b")
_THINGS = r"(?:images?|imgs?|samples|examples|tokens|sentences|sequences|frames|steps)"
_RATES = (  # what must be there, and how the rate stands by it
    ("/s/gpu", lazy_pattern(r"(?<![\d.])(?P<rate>\d+(?:\.\d+)?)/s/gpu\b")),
    (
        "",
        lazy_pattern(
            rf"(?i){_THINGS}(?:/s(?:ec(?:ond)?)?|_per_sec(?:ond)?)\b\"?(?: ?[:=] ?| )(?P<rate>\d+(?:\.\d+)?)\b"
        ),
    ),
    ("", lazy_pattern(rf"(?i)(?<![\d.])(?P<rate>\d+(?:\.\d+)?) ?{_THINGS}/s")),
    ("wps=", lazy_pattern(r"\bwps=(?P<rate>\d+(?:\.\d+)?)")),
    ("global_step/sec: ", lazy_pattern(r"global_step/sec: (?P<rate>\d+(?:\.\d+)?)")),
)


_Span = tuple[int, int, float]
"""Where a number stands, and what it is multiplied with."""


class _Layout(NamedTuple):
    """Where a line says what. It is the same for all lines that differ only in their digits, and there are millions."""

    fails: bool
    loss: tuple[int, int] | None = None
    times: tuple[_Span, _Span] | None = None
    parts: tuple[tuple[str, _Span], ...] = ()
    bar: _Span | None = None
    rate: tuple[int, int] | None = None


def _layout(text: str) -> _Layout:
    return _known_layout(ones(text)) if len(text) <= LONGEST else _read_layout(text)


def _read_layout(text: str) -> _Layout:
    if _FAILURE.search(text) or ("|" in text and _NOT_TRAINING.search(text)):
        return _Layout(fails=True)
    loss = _LOSS.search(text)
    text = text[:LONGEST]
    times = next((found for each in _TIMES if (found := each.search(text))), None) if "ata" in text else None
    parts: dict[str, _Span] = {}
    for pair in _TIMED.finditer(text) if _IN_PARTS.search(text) else ():
        name = pair["name"].lower()
        for key, names in (("data", _DATA), ("whole", _WHOLE), ("fwd", _FORWARD), ("rest", _AFTER_IT), ("talk", _TALK)):
            if name in names and key not in parts:
                parts[key] = (*pair.span("value"), 1000.0 if pair["unit"] == "ms" else 1.0)
    bar = _BAR.search(text) if "/s" in text else None
    told = "/s" in text or "_per_s" in text or "wps=" in text
    rate = (
        next((found for word, each in _RATES if word in text and (found := each.search(text))), None) if told else None
    )
    return _Layout(
        fails=False,
        loss=loss.span("loss") if loss else None,
        times=((*times.span("whole"), 1.0), (*times.span("data"), 1.0)) if times else None,
        parts=tuple(parts.items()),
        bar=(*bar.span("value"), {"s": 1.0, "ms": 1e-3, "us": 1e-6}[bar["unit"]]) if bar else None,
        rate=rate.span("rate") if rate else None,
    )


_known_layout = lru_cache(maxsize=8192)(_read_layout)


def _timing(text: str, layout: _Layout) -> dict[str, float | None]:
    """What a line says of the time of its step: many trainers print it, and that of its parts, in much the same way."""
    seconds = waiting = None
    if layout.times is not None:
        seconds, data = (float(text[start:stop]) for start, stop, _ in layout.times)
        waiting = min(1.0, data / seconds) if seconds >= SHORT_S else None
    parts = {key: float(text[start:stop]) / unit for key, (start, stop, unit) in layout.parts}
    whole = parts.get("whole")
    if whole is None and "fwd" in parts:
        whole = parts.get("data", 0.0) + parts["fwd"] + parts.get("rest", 0.0)
    if whole is None and layout.bar is not None:
        start, stop, unit = layout.bar
        whole = float(text[start:stop]) * unit
    seconds = whole if seconds is None else seconds
    if waiting is None and whole is not None and whole >= SHORT_S and "data" in parts:
        waiting = min(1.0, parts["data"] / whole)
    exchanging = None
    if whole is not None and whole >= SHORT_S and "talk" in parts:
        exchanging = min(1.0, parts["talk"] / whole)
    return {
        "waiting": waiting,
        "seconds": seconds,
        "own": parts.get("data", 0.0) + parts["fwd"] if "fwd" in parts else None,
        "exchanging": exchanging,
        "rate": float(text[slice(*layout.rate)]) if layout.rate else None,
    }


def _float(text: str | None) -> float | None:
    try:
        return float(text.replace(",", "")) if text is not None else None
    except ValueError:
        return None


def _row(pattern: str, make: Make = _step) -> Signature:
    return Signature(pattern, make, ())


PROGRESS = (
    # tqdm: 412/2040 [4:02:51<15:59:22, 35.36s/it]
    _row(r"(?<![\d/.])(?P<step>\d+)/(?P<of>\d+) \[\d+:\d\d(?::\d\d)?<"),
    # keras: 311/Unknown - 29s 93ms/step - loss: 0.41; 12/100 [==>...] - ETA: 3s - loss
    _row(r"(?:^|\s)(?P<step>\d+)/(?P<of>\d+|Unknown)\s+(?:\[[=>.]+\]|━+|-)\s*(?:-\s*)?(?:ETA|\d+m?s|\d+us|\d+:\d\d)"),
    # TF estimator: loss = 0.34, step = 190 (2.1 sec)
    _row(
        rf"loss = (?P<loss>nan|NaN|{_NUMBER})[,;][^\n]{{0,40}}step = (?P<step>\d+)(?:[,;] rank = (?P<rank>\d+)(?:\.0)?\b)?"
    ),
    _row(r"global_step/sec: [\d.]+"),
    # TF's LoggingTensorHook: cross_entropy = 3.21, learning_rate = 0.013 (7.317 sec)
    _row(r"INFO:tensorflow:[\w/:]+ = [^\n]{1,400}\(\d+\.\d+ sec\)"),
    # DeepSpeed's timers: time (ms) | forward: 120.1 | backward: 3020.1 | backward_allreduce: 2700.2
    _row(r"time \(ms\) \| \w"),
    # Megatron: iteration      100/     500 | consumed samples
    _row(r"iteration +(?P<step>\d+)/ +(?P<of>\d+) \|"),
    # tf_cnn_benchmarks: 100   images/sec: 701.0 +/- 2.0 (jitter = 9.0)   9.844
    _row(rf"^\s*(?P<step>\d+)\s+images/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)(?:\s+(?P<loss>nan|{_NUMBER}))?"),
    # torch examples: Epoch: [0][10/5004]  Time 0.1; mmcv: Epoch [1][50/7330] lr: ...
    _row(r"Epoch:? \[\d+\]\s*\[\s*(?P<step>\d+)/(?P<of>\d+)\]"),
    _row(r"Train(?:ing)? Epoch:? \d+ \[\s*(?P<step>\d+)/(?P<of>\d+)"),
    _row(r"\bIter(?:ation)? ?\[\s*(?P<step>\d+)/(?P<of>\d+)\]"),
    # mmengine: Epoch(train)  [1][ 50/1000]; Iter(train) [ 50/80000]
    _row(r"(?:Epoch\(train\)\s+\[\d+\]|Iter\(train\)\s+)\[\s*(?P<step>\d+)/(?P<of>\d+)\]"),
    # timm: Train: 0 [  50/1251 (  4%)]
    _row(r"Train: \d+ \[\s*(?P<step>\d+)/(?P<of>\d+) "),
    # clu's writer (flax, t5x, scenic): logging_writer.py:48] [100] loss=1.2, steps_per_sec=3.1
    _row(r"logging_writer\.py:\d+\] \[(?P<step>\d+)\] \w"),
    # t5x: trainer.py:517] Training: step 57
    _row(r"\] Training: step (?P<step>\d+)"),
    # Hugging Face: {'loss': 2.3, 'learning_rate': ..., 'epoch': 0.1}
    _row(rf"\{{'loss': '?(?P<loss>nan|{_NUMBER})'?, "),
    # fairseq: epoch 001:    100 / 5004 loss=...
    _row(r"epoch \d+: +(?P<step>\d+) / (?P<of>\d+) loss"),
    # detectron2: iter: 19  total_loss: 3.4
    _row(rf"iter: (?P<step>\d+) +total_loss: (?P<loss>nan|{_NUMBER})"),
    # anything with a step and company: epoch 0 step 10 loss 2.2352, Step 10/100 loss=...
    _row(
        r"(?i)\b(?:global[_ ]?step|step|iter|iteration|batch|update|num_updates)s?\b\"?[ =:#\[(]*\"?(?P<step>\d+)(?: ?(?:/|of) ?(?P<of>\d+))?",
        _step_with_company,
    ),
    # Epoch 1/3
    _row(r"^\W{0,4}(?:\w+[ :]){0,3}[Ee]poch:? ?\[?\d+\]?(?: ?/ ?\d+| of \d+)?\b", _step),
)
