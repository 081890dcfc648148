# SPDX-License-Identifier: Apache-2.0
"""Kernels that are compiled while a program runs: TorchInductor, Triton, and the caches that ranks share.

A cache in a home folder or on a shared file system is written by every rank; a file of it that is
incomplete, missing or busy belonged to another rank.
"""

from __future__ import annotations

from keepstep.model.facts.environment import CudaMismatch, InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.model.facts.sync import SharedStateRace
from keepstep.parse.scan.signature import signature

_CACHE = r"(?:\.triton/(?:cache|dump|override)|triton_cache|torchinductor_\w|inductor_cache|torch_compile_cache|\.tilelang/cache|\.cutedsl_cache)"
_HALF = "a cache of compiled kernels that another process writes was not complete"

SIGNATURES = (
    # a cache that several ranks write
    signature(
        r"(?P<path>[^\s'\":]{0,300}" + _CACHE + r"[^\s'\":]{0,300}):"
        r" (?:cannot read file data|file too short|invalid ELF header|cannot open shared object file|failed to map segment"
        r"|undefined symbol: PyInit_)",
        SharedStateRace,
        what=_HALF,
    ),
    signature(
        r"(?:No such file or directory|Device or resource busy|Directory not empty|Text file busy|Stale file handle|File exists"
        r"): '(?P<path>[^'\n]{0,300}" + _CACHE + r"[^'\n]{0,300})'",
        SharedStateRace,
        what=_HALF,
    ),
    signature(
        r"(?:backend='\w+' raised:|InductorError:) (?:json\.decoder\.)?(?:JSONDecodeError: (?P<what>[^\n]{0,80})|EOFError: [^\n]{0,60}|"
        r"(?:_?pickle\.)?UnpicklingError: [^\n]{0,60}|OSError: \[Errno 116\][^\n]{0,200})",
        SharedStateRace,
        what=_HALF,
    ),
    signature(
        r"_inductor/(?:runtime/)?(?:triton_heuristics|autotune_cache|remote_cache|coordinate_descent_tuner|codecache)\.py\", line \d+, in "
        r"(?:load_cached_autotuning|cached_autotune|_load_cached_autotuning|read_best|_read|_decode)\n[^\n]{0,200}json\.loads\(",
        SharedStateRace,
        what=_HALF,
    ),
    # Triton and PyTorch are of versions that do not know each other
    signature(
        r"(?P<what>cannot import name '\w{1,60}' from '(?:partially initialized module ')?triton(?:\.\w{1,40}){0,4}')",
        CudaMismatch,
    ),
    signature(
        r"(?P<what>module 'triton(?:\.\w{1,40}){0,4}' has no attribute '\w{1,60}'"
        r"|(?:ASTSource\.)?__init__\(\) got an unexpected keyword argument '(?:attrs|constexprs|constants)'"
        r"|'CompiledKernel' object has no attribute '\w{1,40}'|No module named 'triton\.\w[\w.]{0,60}')",
        CudaMismatch,
    ),
    # what the compiler rejects where the whole graph was requested
    signature(
        r"torch\._dynamo\.exc\.(?:Unsupported|TorchRuntimeError: Unsupported): (?P<what>[^\n]{1,160})",
        UnsupportedCombination,
    ),
    # what the compilers need and did not find
    signature(r"Cannot find a working (?P<name>triton) installation", LibraryMissing),
    signature(
        r"RuntimeError: Failed to find (?P<name>C compiler)\. Please specify via CC environment variable",
        LibraryMissing,
    ),
    signature(
        r"(?:InvalidCxxCompiler|InductorError: \w{0,40}): No working (?P<name>C\+\+ compiler) found in \S{0,40}\.cpp\.cxx",
        LibraryMissing,
    ),
    signature(
        r"(?P<what>RuntimeError: \d+ active drivers \(\[[^\]\n]{0,120}\]\)\. There should only be one)", CudaMismatch
    ),
    signature(
        r"Found \S[^\n]{0,60} which is too old to be supported by the triton GPU compiler",
        CudaMismatch,
        what="the GPU is too old for Triton",
    ),
    signature(
        r"(?P<what>torch\.?_dynamo\.exc\.(?:InternalTorchDynamoError|BackendCompilerFailed): [^\n]{0,120})",
        InternalFault,
    ),
    signature(r"(?P<what>torch\._inductor\.exc\.(?:LoweringException|InductorError): [^\n]{0,120})", InternalFault),
)
