# SPDX-License-Identifier: Apache-2.0
"""What an exception is about when no signature matches its message.

Frameworks can print thousands of errors. The frequent ones are in the tables, word by word. For the others, the subject
is often clear: two shapes or types that differ, a checkpoint that does not fit, a combination that is refused.
"""

from __future__ import annotations

from enum import Enum

from keepstep.rules.api import Confidence, EvidenceSet, ExceptionRaised, Fix, Found, Standing, lazy_pattern, shorten
from keepstep.rules.asking.exceptions import (
    Raised,
    at_teardown,
    chains,
    is_library_file,
    is_of_peers,
    is_of_the_program,
    is_wrapper,
    place_of,
    raised_on_purpose,
    ranks_told,
    short_type,
)
from keepstep.rules.asking.matched_messages import recognised


class ErrorSubject(Enum):
    """What an exception is about."""

    SHAPE = "shapes"
    DTYPE = "types"
    CHECKPOINT = "a checkpoint"
    REFUSAL = "a combination"


_KINDS = {"RuntimeError", "ValueError", "AssertionError", "TypeError", "NotImplementedError", "Exception", "IndexError"}
_LONGEST = 400

_DIFFER = lazy_pattern(
    r"(?i)\bmis-?match|\b(?:do|does|did)(?: not|n't) (?:match|agree|equal|fit|correspond)"
    r"|\b(?:must|should|need to|needs to|have to|has to|expected to) (?:all )?(?:match|equal|be equal|be the same"
    r"|be identical|have the same|share the same|agree)\b"
    r"|\b(?:are|is|were|was) (?:not equal|not the same|different)\b|\b(?:inconsistent|incompatible)\b"
    r"|\bexpected\b.{1,120}\b(?:but|got|found|received|instead)\b|\b(?:got|found|received)\b.{1,120}\bexpected\b"
    r"|\bunequal\b| != "
    r"|\bshapes?\b.{1,80}\bnot compatible with\b.{1,60}\bshapes?\b"
    r"|\b(?:invalid|wrong|unexpected|bad|illegal) (?:input |output |tensor |batch )?(?:shapes?|dtypes?)\b"
    r"|\b(?:but|and not|instead of) expected\b"
)
_PRINTED = lazy_pattern(
    r"<?\b(?:tf\.)?(?:Keras|Symbolic|Ragged|Sparse)?(?:Tensor|TensorSpec|Variable|KerasVariable)(?:: |\("
    r"| '?)[^\n<>]{0,160}?\bshape=[^\n<>]{1,60}?\bdtype=[^\s,)>]{1,30}"
)
"""A tensor as frameworks print it: its shape and type are not the subject, unless two are compared."""
_SHAPE = lazy_pattern(
    r"(?i)\b(?:shapes?|torch\.Size|dimension(?:s|ality)?|ndims?)\b"
    r"|\bsizes? of (?:the )?(?:tensor|input|output|batch|target|label|mask)"
    r"|\btensors?\b.{0,60}\b(?:sizes?|numel|elements)\b"
    r"|\b(?:input|output|target|label|logit|mask|tensor|sequence|batch)\w* (?:sizes?|lengths?|dim)\b"
)
_NOT_OF_DATA = lazy_pattern(
    r"(?i)world[_ ]?size|group[_ ]?size|mesh|checkpoint|state[_ ]?dict|vocab"
    r"|num(?:ber of)?[_ ](?:gpus?|processes|ranks|devices|nodes)|--\w"
    r"|\bfile\b|download|configuration|\bargs?\b|version|\branks\b|placement"
)
_DTYPE = lazy_pattern(
    r"(?i)\bdtypes?\b|scalar types?|\bdata types?\b"
    r"|\b(?:float16|bfloat16|float32|float64|fp16|bf16|fp32|Half|BFloat16)\b"
)
_CHECKPOINT = lazy_pattern(r"(?i)\bcheckpoints?\b|\bstate[_ ]?dicts?\b|\bckpt\b|sharded tensor")
_OF_A_MODEL = lazy_pattern(
    r"(?i)\bkeys?\b|\bparam(?:eter)?s?\b|\bshapes?\b|\bsizes?\b|\blayers?\b|\bnames?\b|\btensors?\b|\bmodel\b"
    r"|\bweights?\b|\boptimizer\b|\bstates?\b|\belements\b"
)
_LACKS = lazy_pattern(
    r"(?i)\bmissing\b|\bunexpected\b|not (?:found|present|contained|exist) in|does(?: not|n't) contain|cannot find"
    r"|could not find|lacks?\b"
)
_REFUSED = lazy_pattern(
    r"(?i)\bnot (?:yet |currently |officially |been )*(?:supported|implemented|compatible)\b"
    r"|\bunsupported (?!type|object|operand|format|value)|\b(?:do|does)(?: not|n't) (?:yet |currently )?support\b"
    r"|\bincompatible with\b"
    r"|\bonly (?:supports?|works? with|implemented for|available (?:for|with)|supported (?:for|with|on|in|when))\b"
    r"|\bcannot be (?:used|combined|enabled)\b.{0,80}\b(?:with|together|when|and)\b"
    r"|\bcan(?:not|'t) (?:use|combine)\b.{0,80}\b(?:with|together|when|and)\b"
    r"|\bisn't (?:yet |currently )?(?:supported|implemented)\b|\bmutually exclusive\b|\bare incompatible\b"
)
_OF_PYTHON = lazy_pattern(
    r"operand type|between instances|pickle protocol|format string|unsupported format character"
    r"|object does not support|locale|not supported by the codec|None values not supported"
)

# an internal assertion of these libraries fails when a program combines what they did not foresee
_INTERNALS = lazy_pattern(
    r"(?:^|/)(?:fairscale/nn|fairscale/optim|deepspeed/runtime(?!/(?:config\w*|lr_schedules)\.py|/data_pipeline)"
    r"|torch/distributed/(?:fsdp|_composable|tensor|_tensor|pipelin\w+|optim)"
    r"|torch/nn/parallel|torch/cuda/amp|torch/amp|apex/(?:amp|parallel|optimizers|contrib)"
    r"|colossalai/(?:zero|nn|pipeline|booster))/"
)


def unexplained(seen: EvidenceSet) -> list[Raised]:
    """Exceptions that ended a program, follow from no other failure, and match no signature."""
    return seen.once(_unexplained)


def _unexplained(seen: EvidenceSet) -> list[Raised]:
    found: list[Raised] = []
    for chain in chains(seen):
        known = [recognised(seen, each) for each in chain]
        own = [each for each in chain if not is_wrapper(each.fact) and not is_of_peers(each.fact)]
        if any(known):
            if known[0] or not is_of_the_program(chain[0].fact):
                continue
            told = chain[0]
        elif own:
            told = own[-1]
        else:
            continue
        if not seen.survived(told) and not at_teardown(told.fact):
            found.append(told)
    return found


def speaks_of(fact: ExceptionRaised) -> ErrorSubject | None:
    """The subject of an exception, by its first lines; of one that the program itself raises, its line says more."""
    if raised_on_purpose(fact):
        return None
    text = fact.message[:_LONGEST]
    if len(_PRINTED.findall(text)) == 1:
        text = _PRINTED.sub("", text)
    kind = short_type(fact)
    if kind not in _KINDS and not kind.startswith("Checkpoint"):
        return None
    differ = bool(_DIFFER.search(text))
    if (_CHECKPOINT.search(text) or kind.startswith("Checkpoint")) and (differ or _LACKS.search(text)):
        return ErrorSubject.CHECKPOINT if _OF_A_MODEL.search(text) else None
    if differ and not _NOT_OF_DATA.search(text):
        if _SHAPE.search(text):
            return ErrorSubject.SHAPE
        if _DTYPE.search(text):
            return ErrorSubject.DTYPE
    if kind == "AssertionError" and fact.frames and _INTERNALS.search(fact.frames[-1].file or ""):
        return ErrorSubject.REFUSAL
    if kind != "TypeError" and _by_a_framework(fact) and _REFUSED.search(text) and not _OF_PYTHON.search(text):
        return ErrorSubject.REFUSAL
    return None


def said(seen: EvidenceSet, subject: ErrorSubject) -> tuple[Raised, ...]:
    """Unexplained exceptions about a subject."""
    return tuple(e for e in unexplained(seen) if speaks_of(e.fact) is subject and not seen.merely_logged(e))


def in_words(seen: EvidenceSet, raised: Raised, of: str, fixes: tuple[Fix, ...]) -> Found:
    """The finding of a rule that knows only the subject of an exception: a hypothesis, like every guess by wording."""
    message = shorten(raised.fact.message.split("\n")[0], 80)
    return Found(
        title=f"{short_type(raised.fact)}{place_of(raised.fact)} suggests {of}: {message}",
        because=f"unrecognised message; its wording suggests {of}",
        evidence=(raised,),
        ranks=ranks_told(seen, (raised,)),
        confidence=Confidence.HYPOTHESIS,
        standing=Standing.EXCEPTION,
        fixes=fixes,
    )


def _by_a_framework(fact: ExceptionRaised) -> bool:
    """Whether a library raised it. Native code has no frame in the traceback and raises RuntimeError."""
    last = fact.frames[-1].file if fact.frames else None
    return last is None or is_library_file(last) or short_type(fact) == "RuntimeError"
