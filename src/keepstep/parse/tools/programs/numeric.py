# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity, as TensorFlow, torch, JAX, apex and many training scripts report them."""

from __future__ import annotations

import re

from keepstep.model.facts.training import NonFinite, StepsSkipped
from keepstep.parse.scan.signature import by_hand, signature

_NAN = r"(?:nan|NaN|NAN|inf|Inf|-inf)"
_LOSS_ANCHORS = tuple(
    f"{name}{glue}{value}"
    for name in ("oss", "OSS")
    for glue in (": ", "=", " = ", " ", ":", "': ", '": ', '": "')
    for value in ("nan", "NaN")
)


def _printed(match: re.Match[str]) -> NonFinite | None:
    step = re.search(r"(?i)\b(?:step|iter(?:ation)?|global_step|it)\b[ =:#]*(\d+)", match.string)
    return NonFinite(what="loss", step=int(step[1]) if step else None, fatal=False)


SIGNATURES = (
    # stopped for it
    signature(r"Model diverged with loss = NaN", NonFinite, what="loss"),
    signature(r"NaN loss during training", NonFinite, what="loss"),
    signature(r"NanLossDuringTrainingError", NonFinite, what="loss"),
    signature(rf"[Ll]oss is (?P<what>{_NAN}),? *(?:stopping|aborting|exiting|terminating|quitting)", NonFinite),
    signature(
        rf"[Ll]oss (?:is|was|became|went) (?:{_NAN}|infinite|not finite|non-?finite)[^\n]{{0,60}}(?:stop|abort|exit|terminat|giving up|quit)",
        NonFinite,
        what="loss",
    ),
    signature(r"FloatingPointError: (?![^\n]{0,60}inconsistent between workers)(?P<what>[^\n]{0,160})", NonFinite),
    signature(
        r"FloatingPointError: Minimum loss scale reached",
        NonFinite,
        what="gradients overflow at the smallest loss scale",
    ),
    signature(r"Minimum loss scale reached \([\d.e-]+\)\. Your loss is probably exploding", NonFinite, what="loss"),
    signature(
        r"FloatingPointError: (?:invalid value \(nan\)|invalid value \(inf\)|Loss became infinite or NaN)",
        NonFinite,
        what="nan",
    ),
    # detectron2 runs one process for each device, and printed what it was on
    signature(
        r"^loss_dict = \{[^\n]{0,2000}?tensor\((?:nan|-?inf), device='cuda:(?P<rank>\d+)'", NonFinite, what="loss"
    ),
    signature(r"Loss became infinite or NaN at iteration ?=? ?(?P<step>\d+)", NonFinite, what="loss"),
    signature(r"[Ii]nvalid value \((?:nan|inf)\) encountered in (?P<what>[^\n]{1,80})", NonFinite),
    signature(r"Function '(?P<what>\w+)' returned nan values in its \d+th output", NonFinite),
    signature(
        r"(?:Error|Exception|\bassert\w{0,20})[^\n]{0,80}(?:[Ll]oss|[Gg]rad\w{0,20})[^\n]{0,30} (?:is|was|are|were|became|contains?|has|have|not) (?:NaN|nan|inf|[Nn]an/[Ii]nf|finite|NaNs?)\b",
        NonFinite,
        what="loss or gradient",
        anchors=by_hand(
            "errors, losses and verbs are on many lines; a verb before such a value is not",
            *(
                f"{verb} {value}"
                for verb in ("is", "was", "are", "were", "became", "contains", "contain", "has", "have", "not")
                for value in ("NaN", "nan", "inf", "Nan/Inf", "finite")
            ),
        ),
    ),
    signature(
        r"(?:ERROR|Error|Exception)[^\n]{0,60}(?P<what>[Nn]a[Nn] (?:detected|encountered|found|loss|gradient|values?)[^\n]{0,60})",
        NonFinite,
        anchors=by_hand(
            "errors are on many lines, a NaN that is found is not",
            "aN detected",
            "an detected",
            "aN encountered",
            "an encountered",
            "aN found",
            "an found",
            "aN loss",
            "an loss",
            "aN gradient",
            "an gradient",
            "aN value",
            "an value",
        ),
    ),
    signature(
        r"(?:Error|Exception): (?!\s|--)(?=[^\n]{0,160}?(?=[NnIi])(?:\b[Nn][Aa][Nn]s?\b|\b[Ii]nf\b|[Ii]nfinit|[Nn]on-?finite|not finite))"
        r"[^\n]{0,160}?(?=[LlGga])(?P<what>\b[Ll]oss(?:es)?\b|[Gg]radients?\b|\bgrad[_ ]?norm\b|\blogits\b|\bactivations\b)",
        NonFinite,
    ),
    signature(r"Tensor had (?P<what>NaN|Inf) values", NonFinite),
    signature(r"Tensor had (?P<what>Inf and NaN|NaN and Inf|-Inf and NaN|Inf) values", NonFinite),
    signature(r"Detected Infinity or NaN in output \d+ of (?:eagerly-executed|graph) op \"?(?P<what>\w+)", NonFinite),
    signature(r"Found (?:Inf or NaN|NaN or Inf) (?:global norm|in (?P<what>[\w ]{1,40}))", NonFinite),
    signature(
        r"The total norm of order [\d.]+ for gradients from `parameters` is non-finite", NonFinite, what="gradient norm"
    ),
    signature(r"Batch \d+: Invalid loss, terminating training", NonFinite, what="loss"),
    signature(
        r"Gradient overflow\.? +Skipping step[^\n]{0,60}reducing loss scale to (?:0(?:\.0)?(?![\d.])|\d\.\d+e-(?:[4-9]\d|\d{3})\b)",
        NonFinite,
        what="gradients overflow although the loss scale is 0",
    ),
    signature(
        r"overflow detected, setting loss scale to: (?:0\.000\d+|\d(?:\.\d+)?e-\d+)",
        NonFinite,
        what="gradients overflow although the loss scale is next to 0",
    ),
    signature(r"probability tensor contains either `inf`, `nan` or element < 0", NonFinite, what="probabilities"),
    signature(
        r"Expected parameter \w+ \(Tensor of shape [^\n]{0,60}\) of distribution [^\n]{0,120}but found invalid values",
        NonFinite,
        what="distribution parameter",
    ),
    signature(r"[Tt]raining (?:has )?diverged|[Ll]oss (?:has )?(?:diverged|exploded)\b", NonFinite, what="loss"),
    # printed, and training may go on
    signature(
        r"Gradient overflow\.? +Skipping step[^\n]{0,60}reducing loss scale to (?P<scale>[\d.e+-]{1,30})", StepsSkipped
    ),
    signature(r"loss is (?P<what>nan|NaN|inf|not finite) at step (?P<step>\d+)", NonFinite, fatal=False),
    signature(
        r"(?i:loss)\b[\"']?(?: ?[:=])? ?[\"']?(?:tensor\()?(?:nan|NaN)\b",
        _printed,
        anchors=by_hand("nan is too short, and every step prints a loss", *_LOSS_ANCHORS),
    ),
    signature(r"NaN or Inf found in input tensor", NonFinite, what="a summary", fatal=False),
    signature(
        r"(?i:grad(?:ient)?[_ -]?(?:l2[_ -]?)?norm|\bgnorm)[\"']?(?: ?[:=])? ?[\"']?(?:tensor\()?(?:nan|NaN)\b",
        NonFinite,
        what="grad_norm",
        fatal=False,
        anchors=by_hand(
            "nan is too short, and many steps print a norm",
            *(
                f"{n}orm{g}{v}"
                for n in "nN"
                for g in (": ", "=", "': ", " ", '": ', " = ", ":")
                for v in ("nan", "NaN")
            ),
        ),
    ),
    signature(r"(?:\brank (?P<rank>\d+) )?grad_norms? is not finite: ", NonFinite, what="grad_norm", fatal=False),
    signature(r"number of nan iterations: +(?!0\b)(?P<what>\d+)", NonFinite, fatal=False),
)
