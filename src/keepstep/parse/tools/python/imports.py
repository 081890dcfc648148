# SPDX-License-Identifier: Apache-2.0
"""Python modules that do not fit each other or this CPU: binary interfaces, protobuf, builds of extensions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from keepstep.model.facts.base import Fact
from keepstep.model.facts.environment import CpuInstructionMissing, LibraryMissing, SymbolMissing, VersionConflict
from keepstep.parse.scan.block import block
from keepstep.parse.scan.signature import signature


def _generated(match: re.Match[str], lines: Iterator[str]) -> Iterator[Fact]:
    """A module that protobuf's compiler wrote and that raises on import: the runtime is of another version."""
    for line in islice(lines, LINES_TO_AN_ERROR):
        if line.lstrip().startswith("File "):
            return
        if re.match(r"\s*(?:AttributeError|TypeError): ", line):
            yield SymbolMissing(library="protobuf")
            return


LINES_TO_AN_ERROR = 4

BLOCKS = (block(r'File "[^"\n]{1,300}_pb2\.py", line \d+, in <module>', _generated),)

SIGNATURES = (
    # binary interfaces
    signature(
        r"(?P<library>[\w.]+) size changed, may indicate binary incompatibility\. Expected \d+ from C header, got \d+ from PyObject",
        lambda m: None if "Warning" in m.string else SymbolMissing(library=m["library"], symbol=None),
    ),
    signature(
        r"module compiled against (?:ABI|API) version (?P<symbol>\S+) but this version of numpy is",
        SymbolMissing,
        library="numpy",
    ),
    signature(r"A module that was compiled using NumPy 1\.x cannot be run in", SymbolMissing, library="numpy"),
    signature(
        r"numpy\._?core\.multiarray failed to import|_ARRAY_API not found|_multiarray_umath' ?$",
        SymbolMissing,
        library="numpy",
    ),
    signature(r"PyCapsule_Import could not import module \"(?P<library>[^\"\n]+)\"", SymbolMissing),
    signature(r"dynamic module does not define (?:module export|init) function", SymbolMissing),
    signature(r"Extension (?P<library>horovod\.\w+) has not been built", SymbolMissing),
    signature(
        r"MKL_THREADING_LAYER=INTEL is incompatible with (?P<library>lib[\w.\-]+) library",
        SymbolMissing,
        symbol="OpenMP runtime",
    ),
    signature(
        r"OMP: Error #15: Initializing (?P<library>\S+), but found \S+ already initialized",
        SymbolMissing,
        symbol="OpenMP runtime",
    ),
    signature(
        r"(?:RuntimeError: )?operator (?P<symbol>torchvision::\w+) does not exist", SymbolMissing, library="torchvision"
    ),
    signature(r"RuntimeError: Numpy is not available", SymbolMissing, library="numpy"),
    signature(
        r"numpy\.core\.(?:_multiarray_umath|multiarray) is deprecated[^\n]{0,40}Error|Error importing numpy: you should not try to import numpy from",
        SymbolMissing,
        library="numpy",
    ),
    signature(
        r"No module named '(?P<name>amp_C|apex_C|fused_\w+|\w+_cuda|\w+_cuda_\w+|\w+_ext|flash_attn_\d?_?\w+|selective_scan_\w+|transformer_engine_\w+|deepspeed_\w+_op)'",
        LibraryMissing,
    ),
    # a package that the program asks to be installed; wrong versions are elsewhere
    signature(
        r"^(?:\w{1,40}\.){0,3}(?:ImportError|ModuleNotFoundError): (?![^\n]{0,200}(?:but found|versions? [\d<>=~]|cannot import name))"
        r"(?:[^\n]{0,200}?(?:pip3? install|conda install)(?: -\S+)* [`'\"]?(?P<name>[\w.\-]{2,40})|"
        r"[^\n]{0,200}?(?:[Pp]lease install|not installed|installation is required|not found in your environment))",
        LibraryMissing,
    ),
    # protobuf
    signature(r"'MessageFactory' object has no attribute 'GetPrototype'", SymbolMissing, library="protobuf"),
    signature(r"cannot import name '(?P<symbol>\w{1,60})' from 'google\.protobuf", SymbolMissing, library="protobuf"),
    signature(r"Descriptors (?:cannot |should )(?:not )?be created directly", SymbolMissing, library="protobuf"),
    signature(
        r"Detected (?:incompatible|mismatched) Protobuf Gencode/Runtime (?:major )?version",
        SymbolMissing,
        library="protobuf",
    ),
    signature(
        r"__(?:new|init)__\(\) got an unexpected keyword argument '(?:serialized_options|create_key|serialized_pb)'"
        r"|module 'google\.protobuf\.\w+' has no attribute '_internal_create_key'"
        r"|cannot import name '?(?:runtime_version|builder|enum_type_wrapper)'? from '?google\.protobuf",
        SymbolMissing,
        library="protobuf",
    ),
    signature(
        r"This program was compiled against version (?P<here>[\d.]+) of the Protocol Buffer runtime library",
        VersionConflict,
        component="protobuf",
    ),
    signature(
        r"This program requires version (?P<here>[\d.]+) of the Protocol Buffer runtime library, but the"
        r" installed version is (?P<there>\d+(?:\.\d+)*)",
        VersionConflict,
        component="protobuf",
    ),
    signature(r"google\.protobuf\.runtime_version\.VersionError", SymbolMissing, library="protobuf"),
    signature(
        r"TypeError: Couldn't (?:build|parse) (?:proto )?file (?:into descriptor pool|content)",
        SymbolMissing,
        library="protobuf",
    ),
    signature(
        r"duplicate file name(?: \S{1,200})? \S{0,300}\.proto|File already exists in database: (?P<library>\S{1,300}\.proto)",
        SymbolMissing,
    ),
    # CPU instructions
    signature(
        r"The TensorFlow library was compiled to use (?P<detail>[\w. ]+?) instructions,? but these aren't available on your machine",
        CpuInstructionMissing,
    ),
    signature(r"This (?:version of )?jaxlib was built using (?P<detail>[\w.]+) instructions", CpuInstructionMissing),
    signature(
        r"(?:NumPy was built with baseline optimizations|RuntimeError: NumPy was built with baseline)",
        CpuInstructionMissing,
        detail="NumPy's baseline instructions",
    ),
    signature(r"Please verify that both the operating system and the processor support Intel", CpuInstructionMissing),
    signature(
        r"cannot execute binary file: Exec format error|\[Errno 8\] Exec format error",
        CpuInstructionMissing,
        detail="the program is for another architecture",
    ),
    # versions that differ between processes
    signature(
        r"client and server binaries are not built with the same version", VersionConflict, component="TensorFlow"
    ),
    signature(
        r"Mismatched NCCL versions? (?:detected|between)|NCCL version mismatch", VersionConflict, component="NCCL"
    ),
    signature(
        r"Op type not registered '(?!Nccl)[\w>]+' in binary running on",
        VersionConflict,
        component="TensorFlow (an operation that one side lacks)",
    ),
    signature(
        r"versions differ between client and server: client is (?P<here>[\w.]+), server is (?P<there>[\w.]+)",
        VersionConflict,
        component="Python or Ray",
    ),
    signature(
        r"received different version from \S+: (?P<there>\S+) instead of (?P<here>\S+)",
        VersionConflict,
        component="Open MPI",
    ),
    signature(r"Mismatched versions found", VersionConflict, component="packages"),
    signature(
        r"TypeError: code(?:\(\))? (?:takes at most \d+ arguments \(\d+ given\)|(?:argument \d+ must be|expected at (?:most|least)"
        r" \d+ arguments, got \d+))|SystemError: unknown opcode|\b[EV]\w{0,30}Error: bad marshal data",
        VersionConflict,
        component="Python (a function pickled by another version could not be loaded)",
    ),
    signature(
        r"unsupported pickle protocol: (?P<here>\d+)", VersionConflict, component="pickle protocol (Python version)"
    ),
)
