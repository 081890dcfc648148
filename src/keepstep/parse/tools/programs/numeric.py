# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity, as TensorFlow, torch, JAX, apex and many training scripts report them."""

from __future__ import annotations

import re

from keepstep.model.facts.training import NonFinite
from keepstep.parse.scan.signature import by_hand, signature

_LOSS_ANCHORS = tuple(
    f"{name}{glue}{value}"
    for name in ("oss", "OSS", ")")
    for glue in (": ", "=", " = ", " ", ":", "': ", '": ', '": "')
    for value in ("nan", "NaN")
)


def _printed(match: re.Match[str]) -> NonFinite | None:
    step = re.search(r"(?i)\b(?:step|iter(?:ation)?|global_step|it)\b[ =:#]*(\d+)", match.string)
    return NonFinite(what="loss", step=int(step[1]) if step else None, fatal=False)


SIGNATURES = (
    # printed, and training may go on
    signature(
        r"(?i:loss)\b(?: \([\w -]{1,30}\))?[\"']?(?: ?[:=])? ?[\"']?(?:tensor\()?(?:nan|NaN)\b",
        _printed,
        anchors=by_hand("nan is too short, and every step prints a loss", *_LOSS_ANCHORS),
    ),
)
