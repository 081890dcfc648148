# SPDX-License-Identifier: Apache-2.0
"""Stacks: whose code each frame is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.wording import called
from keepstep.model.facts.process import Frame

LONGEST_SYMBOL = 2000
"""How much of a function's name, templates included, is examined."""


class Whose(Enum):
    """Whose code a frame is."""

    USER = "the user's own code"
    FRAMEWORK = "the framework"
    LIBRARY = "an installed library"
    PYTHON = "Python itself"
    SYSTEM = "the system"


_FRAMEWORKS = (
    r"torch|torchvision|torchaudio|torch_xla|torchtext|tensorflow|tensorflow_\w+|keras|tf_keras|jax|jaxlib|flax|optax"
    r"|horovod|deepspeed|apex|megatron\w*|transformer_engine|flash_attn\w*|xformers|triton|nvidia|cupy|libtpu|ray"
    r"|accelerate"
    r"|lightning|pytorch_lightning|bitsandbytes|vllm|paddle|mxnet|onnxruntime|fairscale|torchrec|fbgemm_gpu|jax_cuda\w*"
)
_INSTALLED = lazy_pattern(r"(?:site|dist)-packages/(?P<package>[^/]+)")
_FRAMEWORK_NAME = lazy_pattern(rf"^(?:{_FRAMEWORKS})(?:\.|-|_C|$)")
_FRAMEWORK_LIB = lazy_pattern(
    r"^(?:libtorch\w*|libc10\w*|_C\.|libtensorflow\w*|_pywrap_\w+|libxla\w*|_jax\.|libjax\w*|xla_extension"
    r"|xla_cuda\w*|libtpu"
    r"|libnccl\w*|librccl\w*|libcud(?:a|nn|art)\w*|libcu(?:blas|fft|sparse|solver|rand)\w*|libnv\w+|libhip\w*"
    r"|libmiopen\w*"
    r"|librocblas\w*|libhsa\w*|libgloo\w*|mpi_lib|libhorovod|libtriton\w*|libshm\.|libcaffe2\w*|libmpi\b"
    r"|libopen-\w+|libucp|libuct\b|libucm\b"
    r"|libnvidia\w*|libfabric|libibverbs|libonnxruntime|libpaddle\w*|libgomp-\w+|libiomp5|libmkl\w*|libdnnl\w*"
    r"|libnccl-net)"
)
_FRAMEWORK_SYMBOL = lazy_pattern(
    r"^(?:p?nccl|rccl|TF_|TFE_|THP|THCP)[A-Z]\w*|^(?:\w+ )?(?:tensorflow|tsl|xla|jax|jaxlib|torch|c10d?|at|caffe2"
    r"|gloo|horovod|nccl\w*|stream_executor|Eigen|mlir|grpc(?:_core)?|tensorpipe)::"
    r"|^_ZNK?(?:St\w+)?(?:10tensorflow|3xla|5torch|3c10|4c10d|2at|6caffe2|4gloo|7horovod|3tsl)"
)
_SYSTEM_LIB = lazy_pattern(
    r"^(?:libc[.\-]|libpthread|ld-|ld\.|libstdc\+\+|libgcc_s|libm[.\-]|libdl|librt|linux-vdso|\[vdso\]|libutil"
    r"|libffi|libasan|libtsan"
    r"|libjemalloc|libtcmalloc|libunwind|libucs\b|libasound|libz\.|libnsl|libSegFault|libc\+\+)"
)
_PYTHON_LIB = lazy_pattern(r"^(?:libpython|python[\d.]*(?:$|-)|_ctypes\.|pypy|faulthandler)")
_PYTHON_SYMBOL = lazy_pattern(
    r"^(?:_?Py[A-Z_]\w*|_PyEval\w*|py(?:main|run)_\w+|cfunction_\w+|method_vectorcall\w*|faulthandler_\w+|builtin_\w+)"
)
_STDLIB = lazy_pattern(
    r"(?:^|/)lib(?:64)?/python\d(?:\.\d+)?t?/(?!(?:site|dist)-packages/)|^<frozen |^<string>$|^<stdin>$|(?:^"
    r"|/)python\d+\.zip/"
    r"|(?:^|/)(?:debugpy|pydevd|ipykernel|IPython)/"
)
_SOURCE_TREE = lazy_pattern(
    r"/(?:torch/(?:nn|distributed|autograd|utils|cuda|optim|_\w+|fx|jit|multiprocessing)|tensorflow/(?:python"
    r"|core)|jax/(?:_src|interpreters"
    r"|lib|experimental)|jaxlib|horovod/(?:torch|tensorflow|common|runner|run)|deepspeed/(?:runtime|launcher|comm)"
    r"|keras/src|keepstep/guard)/"
)
_SYSTEM_PLACE = lazy_pattern(r"^/(?:usr/)?(?:local/)?lib(?:32|64|x32)?/(?!python)")
_HANDLERS = lazy_pattern(
    r"FailureSignalHandler|FatalSignalHandler|SignalHandler|signal_handler|sigaction|__restore_rt|sigreturn|killpg"
    r"|^raise$|gsignal|^abort$"
    r"|__GI_raise|__GI_abort|pthread_kill|__assert_fail|__libc_message|malloc_printerr|^std::terminate|__cxa_throw"
    r"|_Unwind_"
    r"|google::LogMessage|LogMessageFatal|absl::.*(?:Log|Die|Fail)|tsl::internal::LogMessage|fatal_error|Backtrace"
    r"|StackTrace"
    r"|__verbose_terminate_handler|__cxa_rethrow|opal_backtrace|mca_base_\w+handler|orte_\w*signal"
    r"|ucs_handle_error|ucs_debug",
    most=LONGEST_SYMBOL,
)


def base_name(path: str | None) -> str:
    """The last part of a path."""
    return (path or "").rsplit("/", 1)[-1]


def package_of(frame: Frame) -> str | None:
    """The installed package a frame belongs to, if its path shows one."""
    match = _INSTALLED.search(frame.file or "")
    return match["package"] if match else None


def whose(frame: Frame) -> Whose:
    """Whose code a frame is, by its path, library and symbol."""
    return _whose_native(frame) if frame.is_native else _whose_python(frame)


def _whose_python(frame: Frame) -> Whose:
    path = frame.file or ""
    match = _INSTALLED.search(path)
    if match:
        return Whose.FRAMEWORK if _FRAMEWORK_NAME.match(match["package"]) else Whose.LIBRARY
    if _STDLIB.search(path) or (path.startswith("<") and path.endswith(">")):
        return Whose.PYTHON
    if not path:
        return Whose.PYTHON
    return Whose.FRAMEWORK if _SOURCE_TREE.search(path) else Whose.USER


def _whose_native(frame: Frame) -> Whose:
    name = base_name(frame.library)
    path = frame.file if frame.file and base_name(frame.file) == name else frame.library or ""
    if _PYTHON_LIB.match(name) or _PYTHON_SYMBOL.match(frame.function):
        return Whose.PYTHON
    if _SYSTEM_LIB.match(name):
        return Whose.SYSTEM
    match = _INSTALLED.search(path)
    if match:
        of_framework = _FRAMEWORK_NAME.match(match["package"]) or _FRAMEWORK_LIB.match(name)
        return Whose.FRAMEWORK if of_framework else Whose.LIBRARY
    if _FRAMEWORK_LIB.match(name) or _FRAMEWORK_SYMBOL.search(frame.function):
        return Whose.FRAMEWORK
    if "/lib-dynload/" in path:
        return Whose.PYTHON
    if ".so" not in name or name.startswith("[") or _SYSTEM_PLACE.match(path):
        return Whose.SYSTEM
    return Whose.USER


def is_handler(frame: Frame) -> bool:
    """Whether a native frame only reports or raises the crash."""
    return frame.is_native and _HANDLERS.search(frame.function) is not None


def innermost_user(frames: Iterable[Frame]) -> Frame | None:
    """The user's innermost Python line of a stack (innermost frame first)."""
    return next((f for f in frames if not f.is_native and whose(f) is Whose.USER), None)


def place(frame: Frame) -> str:
    """``train.py:88, in step()``; for a native frame ``fn (libfoo.so)``."""
    if frame.is_native:
        known = frame.function not in ("", "???", "??")
        name = _shorter(frame.function) if known else "an unnamed function"
        return f"{name} ({base_name(frame.library)})" if frame.library else name
    where = base_name(frame.file) or "?"
    line = f":{frame.line}" if frame.line else ""
    return f"{where}{line}, in {called(frame.function)}" if frame.function else f"{where}{line}"


def _shorter(symbol: str) -> str:
    """A C++ symbol without its template arguments, parameters and return type."""
    if symbol.startswith("_ZN"):
        return _demangled(symbol)
    kept: list[str] = []
    depth = 0
    text = symbol.replace("(anonymous namespace)::", "").replace("operator()", "operator").replace("->", "")
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif not depth:
            kept.append(char)
    words = "".join(kept).replace(" const", "").split()
    bare = words[-1].strip(":&*") if words else ""
    bare = bare or symbol
    return bare if len(bare) <= 60 else "..." + bare[-57:]


def _demangled(symbol: str) -> str:
    """The leading names of a mangled C++ symbol: enough to search for."""
    names: list[str] = []
    at = 4 if symbol.startswith("_ZNK") else 3
    while match := re.match(r"\d{1,3}", symbol[at : at + 3]):
        at += len(match[0])
        names.append(symbol[at : at + int(match[0])])
        at += int(match[0])
    return "::".join(name for name in names if name != "_GLOBAL__N_1") or symbol[:60]
