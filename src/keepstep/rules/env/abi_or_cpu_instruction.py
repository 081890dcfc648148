# SPDX-License-Identifier: Apache-2.0
"""ENV003: a binary is not compatible with the libraries or the CPU that it runs with."""

from __future__ import annotations

import re

from keepstep.model.facts import CpuInstructionMissing, Fact, FatalSignal, ProcessExited, SymbolMissing
from keepstep.rules.api import (
    Cause,
    Confidence,
    Evidence,
    EvidenceSet,
    Findings,
    Fix,
    Found,
    Standing,
    lazy_pattern,
    rule,
)
from keepstep.rules.asking.process_endings import OF_A_DEAD_RANK, ended_by, of_another, once_a_line, who
from keepstep.rules.env.symbols import of_cuda

_FRAMEWORK = lazy_pattern(
    r"libtensorflow|_pywrap_tensorflow|libtorch|libc10|libaten|libcaffe2|_C\.(?:cpython|abi3)|xla_extension"
    r"|libjax|libmxnet"
)
_SYSTEM = lazy_pattern(
    r"^(?:lib(?:c|m|dl|pthread|rt|gcc_s|stdc\+\+|python[\d.m]*|gomp|ld|mpi\w*|open-\w+|cuda|nccl|util|resolv"
    r"|ucp|ucs|uct)"
    r"(?:-[\d.]+)?\.so|ld-linux|python[\d.]*$|\[vdso\]|mca_)"
)


@rule(
    id="ENV003",
    cause=Cause.ENV_ABI_OR_CPU_INSTRUCTION,
    needs=(SymbolMissing, CpuInstructionMissing, FatalSignal, ProcessExited),
    explains=(*OF_A_DEAD_RANK, Cause.FRAMEWORK_BUG_SEGFAULT, Cause.USER_NATIVE_CRASH, Cause.USER_CODE_EXCEPTION),
)
def abi_or_cpu_instruction(seen: EvidenceSet) -> Findings:
    """A binary is not compatible with the installed libraries, or uses instructions that this CPU lacks.

    ## What it looks like
    `undefined symbol`, `version GLIBCXX_3.4.29 not found`, `numpy.dtype size changed`, `Descriptors cannot be
    created directly`, `Illegal instruction`, or a crash in an extension that the framework calls.

    ## Why it happens
    An extension was compiled against a different framework version, compiler or C++ ABI; or the wheel was built for
    newer CPUs (AVX) than one node has.

    ## How we know
    The loader or the module says so; the CPU raises SIGILL for unknown instructions. A crash counts if the innermost
    frame belongs to an extension and its caller is the framework.

    ## What to do
    Rebuild the extension against the installed versions, with the framework's compiler; or pin compatible versions.

    ## When this is wrong
    A bug inside the extension crashes in the same place. If a rebuild does not help, it is a bug.
    """
    symbols = once_a_line(e for e in seen.all(SymbolMissing) if not of_cuda(e.fact) and not seen.survived(e))
    if symbols:
        first = next((e.fact for e in symbols if e.fact.symbol or e.fact.library), symbols[0].fact)
        name = " of ".join(part for part in (first.symbol, first.library) if part) or "a binary"
        yield Found(
            title=f"{who(symbols)} loaded incompatible binaries: {_short(name)}",
            because=f"{_short(name)} was built against versions other than those installed here",
            evidence=symbols,
            fixes=_REBUILD,
        )
    cpu = once_a_line(e for e in seen.all(CpuInstructionMissing) if e.fact.fatal and not seen.survived(e))
    illegal: list[Evidence[Fact]] = [e for e in seen.all(FatalSignal) if e.fact.signal == "SIGILL"]
    illegal += [e for e in seen.all(ProcessExited) if ended_by(e.fact, "SIGILL")]
    if cpu or illegal:
        detail = next((e.fact.detail for e in cpu if e.fact.detail), None)
        yield Found(
            title=f"{who((*cpu, *illegal))} used instructions that its CPU lacks" + (f" ({detail})" if detail else ""),
            because="the binary was built for a newer CPU than this host has"
            if cpu
            else "the CPU refused an instruction (SIGILL): the binary was built for another CPU",
            evidence=(*cpu, *illegal),
            confidence=None if cpu else Confidence.SUPPORTED,
            standing=Standing.SYMPTOM if illegal and all(of_another(seen, e) for e in (*cpu, *illegal)) else None,
            fixes=(
                Fix(do="compare the CPUs of the nodes", command="lscpu | grep -E 'Model name|Flags'"),
                Fix(do="install a build without these instructions, or keep this node out of the run"),
            ),
        )
    crossed = [e for e in seen.all(FatalSignal) if e.fact.signal in ("SIGSEGV", "SIGABRT") and _extension(e.fact)]
    if crossed and not symbols:
        library = _extension(crossed[0].fact)
        yield Found(
            title=f"{who(tuple(crossed))} crashed in {library}, called by an incompatible framework",
            because=f"{library} was most likely compiled against another version, or with another compiler",
            evidence=tuple(crossed),
            confidence=Confidence.SUPPORTED,
            fixes=_REBUILD,
        )


_REBUILD = (
    Fix(do="list the installed versions", command="pip list | grep -iE 'torch|tensorflow|jax|numpy|protobuf|horovod'"),
    Fix(
        do="rebuild the extension from source against them",
        command="pip install --no-cache-dir --force-reinstall --no-binary PACKAGE PACKAGE",
    ),
    Fix(do="or install the versions that the extension was built for, on every node"),
)


def _extension(fact: FatalSignal) -> str | None:
    """The library of the innermost frame, if it is an extension and the framework called it."""
    own = [f for f in fact.frames if f.library and not _SYSTEM.match(f.library)]
    if not own or own[0].library is None or _FRAMEWORK.search(own[0].file or own[0].library):
        return None
    if re.search(r"/(?:tensorflow|torch|jaxlib)/", own[0].file or "") and "horovod" not in (own[0].file or ""):
        return None
    if own[0].file and not re.search(r"(?:site|dist)-packages/", own[0].file):
        return None
    for frame in own[1:12]:
        if frame.library and _FRAMEWORK.search(frame.library):
            return own[0].library
    return None


def _short(name: str) -> str:
    return name if len(name) <= 60 else name[:57] + "..."
