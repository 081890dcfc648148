# SPDX-License-Identifier: Apache-2.0
"""Sizes that must divide each other: batches over ranks, layers, heads and experts over parallel groups.

Trainers word the same error in many ways (``X (6) must be divisible by Y (4)``, ``X should be a multiple of Y``).
The words on its two sides say what was wrong, not the tool: a batch that does not split is a fact of the
data, a number of ranks, layers or heads that does not is one of the configuration.
"""

from __future__ import annotations

import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.model.facts.base import Fact
from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import BatchNotDivisible
from keepstep.parse.scan.signature import signature

_BATCH = lazy_pattern(
    r"(?i)batch|\bbsz?\b|data ?proto|data size|samples?\b|generations?\b|prompts?\b|rollouts?\b|first dim|sequence[- _]len|seq[-_ ]?len"
    r"|tokens\b|images\b"
)
_RANKS = lazy_pattern(
    r"(?i)world|gpus?\b|n_gpu|process|\branks?\b|devices?\b|cores?\b|nodes?\b|workers?\b|replicas?\b|shards?\b|parallel|\b[tpcdes]p(?:_size)?\b"
    r"|chunks?\b|slots?\b"
)
_MODEL = lazy_pattern(
    r"(?i)layers?\b|heads?\b|experts?\b|hidden|vocab|embed|projection|stages?\b|ranks? per|kv_|dimension|columns?\b|rows?\b"
)
_NUMBER = lazy_pattern(r"(?<![\w.])\d{1,9}\b")


def _refused(match: re.Match[str]) -> Fact | None:
    what, by = match["what"], match["by"]
    left, right = _NUMBER.search(what), _NUMBER.search(by)
    seen = left[0] if left else None
    expected = right[0] if right else None
    if _BATCH.search(what) and not re.search(r"(?i)world[ _]?size|\brollout GPUs\b", what):
        if not (_RANKS.search(by) or _BATCH.search(by) or re.search(r"accum|step|group", by)):
            return None
        return BatchNotDivisible(batch=seen, parts=expected)
    if not (_RANKS.search(by) or (_RANKS.search(what) and not _MODEL.search(by))):
        return None
    if not (_RANKS.search(what) or _MODEL.search(what)):
        return None
    return WorldSizeConflict(what=_subject(what), seen=seen, expected=expected)


def _subject(text: str) -> str:
    words = re.sub(r"\(.*|=.*|[`'\"{}\[\]]", " ", text)
    words = re.sub(r"(?i)\b(?:the|number of|got|total|size of)\b", " ", words)
    return " ".join(words.split()[-4:]) or "parallel sizes"


_VERB = (
    r"(?:must|should|has to|have to|needs? to|require[sd]? to|to be|is|are|was|were)(?: not|n't)?(?: be| to be)?(?: evenly| exactly| a| an){0,3}"
    r"(?: positive| round| integer| whole){0,2} ?"
)

SIGNATURES = (
    signature(
        r"\b(?:MP|TP|PP|DP|mp_size|tp_size|parallel size)(?: ?[=:] ?| of | )(?P<expected>\d+)[^\n]{0,30}? but (?:the |current )?world[_ ]size is (?P<seen>\d+)",
        lambda m: WorldSizeConflict(what="ranks of the checkpoint", seen=m["seen"], expected=m["expected"]),
    ),
    signature(
        r"(?:Error|Exception|assert\w{0,20})['\"]?[:(] ?['\"]?(?P<what>[^\n]{1,160}?)[ ,(]"
        + _VERB
        + r"(?:divisible by|(?<=a )multiple of|multiple of|multiples of)(?P<by>[^\n]{1,160})",
        _refused,
    ),
    signature(
        r"(?:Error|Exception)['\"]?[:(] ?['\"]?(?P<what>[^\n]{1,120}?)(?<!\s)(?<! is)(?<! are)(?<! must)(?<! should) not (?:a |an )?(?:evenly )?(?:divisible by|multiple of)(?P<by>[^\n]{1,160})",
        _refused,
    ),
    signature(
        r"(?:Error|Exception)['\"]?[:(] ?['\"]?(?P<what>[^\n]{1,120}?) (?:must|should|does not|cannot|doesn't|can't)(?: evenly)? (?:evenly )?divide(?:d by)? (?P<by>[^\n]{1,120})",
        _refused,
    ),
    # a library's bare assertion, whose line the traceback shows; a program's own assertion is its own affair
    signature(
        r"^\s*assert \(?(?P<what>[\w.\[\]()* ]{1,80}?) % (?P<by>[\w.\[\]()* ]{0,60}(?:parallel|\b[tecps]p_size)[\w.\[\]() ]{0,40}?) == 0\)?\s*(?:[,#\\]|$)",
        _refused,
    ),
)
