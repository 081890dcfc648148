# SPDX-License-Identifier: Apache-2.0
"""XLA and the device compilers below it: limits of a program, and threads that wait for others.

Messages of XLA:TPU, XLA:GPU (ptxas) and Neuron that reject a program for its size or shape,
and of XLA's own rendezvous, which reports that not all participants of a collective came.
"""

from __future__ import annotations

import re

from keepstep.model.facts.config import WorldSizeConflict
from keepstep.model.facts.data import DtypeMismatch, ShapeMismatch
from keepstep.model.facts.environment import CudaMismatch, InternalFault, LibraryMissing, UnsupportedCombination
from keepstep.model.facts.platform import PeerAccessFault
from keepstep.model.facts.sync import CollectiveMismatch, CollectiveTimeout, ForkOrThread, RanksMissing
from keepstep.model.facts.training import Phase, PhaseSeen, ProgramTooLarge
from keepstep.parse.scan.signature import signature


def _timed_out(match: re.Match[str]) -> CollectiveTimeout:
    seconds = match["seconds"]
    return CollectiveTimeout(op=match["op"].split(";")[0], timeout_ms=int(seconds) * 1000 if seconds else None)


SIGNATURES = (
    signature(
        r"In k\w+ mode, replica groups should contain (?P<expected>\d+) (?P<what>replicas|partitions|flattened IDs), but found (?P<seen>\d+)",
        WorldSizeConflict,
    ),
    signature(
        r"Argument does not match host shape or layout of computation parameter \d+: want (?P<left>\S{1,60}), got (?P<right>\S{1,60})",
        ShapeMismatch,
    ),
    signature(
        r"Error: [A-Z_]{3,30}: (?P<what>No registered implementation for (?:untyped )?custom call to \S{1,80}(?: for platform \w+)?)",
        UnsupportedCombination,
    ),
    signature(
        r"Executable expected (?:parameter|shape)[^\n]{0,120}(?:of size (?P<left>\d+) )?but got (?:a )?buffer with incompatible "
        r"(?:size|shape) (?P<right>\S{1,60})",
        ShapeMismatch,
    ),
    signature(
        r"Executable expected shape (?P<left>\S{1,60}) for argument \d+ but ?got incompatible shape (?P<right>\S{1,60})",
        ShapeMismatch,
        op="a compiled program",
    ),
    # limits
    signature(r"(?P<what>Computation requires more parameters \(\d+\) than supported \(limit \d+\))", ProgramTooLarge),
    signature(r"(?P<what>Ran out of memory in memory space [vs]mem[^\n]{0,160})", ProgramTooLarge),
    signature(r"(?P<what>Exceeded [vs]mem capacity by [^\n]{0,40})", ProgramTooLarge),
    signature(r"(?P<what>[Ss]coped allocation[^\n]{0,100}exceeded scoped vmem limit[^\n]{0,60})", ProgramTooLarge),
    signature(
        r"(?P<what>BackendCompilerFailed: backend=['\"]\w+['\"] raised: RecursionError: maximum recursion depth)",
        ProgramTooLarge,
    ),
    signature(r"(?P<what>Compiler generated too many instructions[^\n]{0,60})", ProgramTooLarge),
    signature(r"(?P<what>Too many instructions after unroll[^\n]{0,60})", ProgramTooLarge),
    signature(
        r"(?P<what>ptxas (?:error|fatal)[^\n]{0,80}(?:too many|too much|exceed|uses too)[^\n]{0,120})", ProgramTooLarge
    ),
    signature(
        r"(?P<what>Entry function '[^']{1,200}' uses too much (?:shared data|parameter space|local data)[^\n]{0,80})",
        ProgramTooLarge,
    ),
    signature(r"(?P<what>Formal parameter space overflowed[^\n]{0,80})", ProgramTooLarge),
    signature(r"(?P<what>out of resource: shared memory, Required: \d+, Hardware limit: \d+)", ProgramTooLarge),
    signature(r"(?P<what>(?:Shared memory|shared memory) size limit exceeded[^\n]{0,80})", ProgramTooLarge),
    signature(r"(?P<what>CUDA error: too many resources requested for launch)", ProgramTooLarge),
    signature(r"(?P<what>CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES[^\n]{0,80})", ProgramTooLarge),
    signature(
        r"(?P<what>RecursionError: maximum recursion depth exceeded[^\n]{0,40}(?:compil|pickling))", ProgramTooLarge
    ),
    signature(r"(?P<what>\bE1001: ?Compile ?Time ?Scoped ?V[Mm][Ee][Mm][^\n]{0,80})", ProgramTooLarge),
    # what a compiled program may not hold
    signature(
        r"(?P<what>Mosaic failed to compile TPU kernel(?![^\n]{0,240}(?:exceed|too large|limit|out of memory))[^\n]{0,160})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Detected unsupported operations when trying to compile graph[^\n]{0,160})", UnsupportedCombination
    ),
    signature(
        r"(?P<what>\S{1,80} (?:op|Op|operation)? ?does not support (?:bounded )?dynamic (?:dimensions?|shapes?)[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>(?:non-batch|bounded) dynamic dimension[^\n]{0,80}not (?:supported|implemented)[^\n]{0,60})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>(?:Dynamic|dynamic) (?:shape|dimension)s? (?:is|are) not (?:yet )?(?:supported|implemented)[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(r"(?P<what>Asked to propagate a dynamic dimension from hlo)", UnsupportedCombination),
    signature(
        r"(?P<what>(?:Input \d+ to (?:node )?|Compilation fail\w+: )`?[^\n]{1,160}must be a compile-time constant)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>No registered '\w{1,60}' OpKernel for '?XLA_(?:TPU|GPU|CPU)_JIT'? devices[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(
        r"(?<!ptimizer failed: )(?<!ptimizer failed: Not found: )"
        r"(?P<what>No registered '\w{1,60}' OpKernel for '?(?:TPU|CPU|GPU|XPU|NPU|DML|METAL)'? devices[^\n]{0,80})",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>XLA compilation requires a fixed tensor list size|Pallas TPU lowering requires that|"
        r"The Pallas TPU lowering currently (?:requires|supports)|XLA can't deduce compile time constant)",
        UnsupportedCombination,
    ),
    signature(
        r"(?P<what>Function invoked by the following node is not compilable[^\n]{0,120})", UnsupportedCombination
    ),
    signature(
        r"(?P<what>Compilation failure: (?!Ran out of memory|Aborting compilation early|Input to reshape|[^\n]{0,40}(?:too large|too many|exceeds))[^\n]{1,160}?(?:not (?:yet )?(?:supported|implemented)|[Uu]nsupported|[Uu]nimplemented))",
        UnsupportedCombination,
    ),
    signature(r"Unsupported data type for TPU: (?P<left>\w+)", DtypeMismatch, right="what a TPU can hold"),
    signature(r"Unsupported XLA type (?P<left>\d+)", DtypeMismatch, right="what XLA can hold"),
    signature(
        r"Seen floating point types of different precisions[^\n]{0,400}but mixed precision is disallowed", DtypeMismatch
    ),
    signature(r"with different element types: (?P<left>\w+)\[[^\n]{0,80}? and (?P<right>\w+)\[", DtypeMismatch),
    signature(
        r"(?P<left><dtype: '\w+'>|\w+) is not a supported TPU infeed type", DtypeMismatch, right="what a TPU can be fed"
    ),
    signature(
        r"(?P<what>(?:Compilation failure: )?Reshape's input dynamic dimension is decomposed into multiple output dynamic dimensions)",
        UnsupportedCombination,
    ),
    signature(
        r"Execution supplied (?P<left>\d+) (?:buffers|arguments) but compiled program expected (?P<right>\d+)",
        ShapeMismatch,
        op="a compiled program",
    ),
    signature(
        r"(?P<what>[Aa]n unexpected peer shows up in the launch group with a different launch id[^\n]{0,80})",
        CollectiveMismatch,
    ),
    # its own passes contradict each other
    signature(r"(?P<what>All buffers must have the same element type and count)", InternalFault),
    signature(
        r"(?P<what>already has (?:a|the) layout constraint)[^\n]{0,400}cannot add incompatible constraint",
        InternalFault,
    ),
    signature(
        r"(?P<what>RET_CHECK failure \((?:[\w./\-]{1,60}/)?xla/(?![^\n]{0,200}allocation_size_words)[^\n]{0,120})",
        InternalFault,
    ),
    signature(
        r"(?:(?:XlaRuntimeError|JaxRuntimeError): (?:INTERNAL|UNKNOWN)|RuntimeError: I(?:nternal|NTERNAL)): (?:Error dispatching computation: )*"
        r"(?!Error dispatching computation: |From /job|[^\n]{0,400}(?=[A-Za-z])(?:NCCL|nccl|[Cc]allback|out of memory|OOM|RESOURCE_EXHAUSTED"
        r"|CUDA_ERROR_(?!GRAPH|STREAM_CAPTURE|INVALID_PTX)|cuDNN|CUDNN|DNN library|[Hh]alted|TPU initialization|Failed to allocate|Unable to load|Unsupported \.version|Value 'sm_"
        r"|too much|too many|Unsupported Mosaic|Address already|[Cc]onnect|Socket|topology|Topology|Coordination service|RPC server|[Ss]olverDnCreate|blasCreate|Barrier|Gloo|[Tt]imed out|across replicas|collective mismatch|[Hh]eartbeat|HloModuleProto|NaN|nan\b))(?P<what>[^\n]{1,160})",
        InternalFault,
    ),
    signature(
        r"(?P<what>custom call 'xla\.gpu\.(?!all_|reduce_scatter|collective|nccl|ragged)[\w.]{1,60}' failed: [^\n]{0,120})",
        InternalFault,
    ),
    signature(
        r"(?P<what>Failed to (?:update|capture|instantiate) (?:gpu|CUDA) graph(?![^\n]{0,80}(?:out of memory|OUT_OF_MEMORY))[^\n]{0,120})",
        InternalFault,
    ),
    signature(
        r"(?:XlaRuntimeError|JaxRuntimeError): UNIMPLEMENTED: (?!DNN library is not found)(?P<what>[^\n]{1,160})",
        UnsupportedCombination,
    ),
    # libraries that XLA loads by itself
    signature(r"Unable to load (?P<name>NCCL) library\. Multi-GPU collectives will not work", LibraryMissing),
    signature(r"(?P<what>DNN library initialization failed)", CudaMismatch),
    signature(
        r"RuntimeError: Unable to initialize backend '(?:cuda|gpu|rocm)': (?P<what>[^\n]{1,160}?)(?: \((?:set JAX_PLATFORM|you may)|$)",
        CudaMismatch,
    ),
    # waiting for other participants
    signature(r"Termination timeout for `(?P<op>[^`\n]{0,300})` of (?P<seconds>\d+) seconds exceeded", _timed_out),
    signature(
        r"This thread has been waiting for (?:`(?P<what>[^`;\n]{0,200})[^`\n]{0,2000}` for )?(?P<waited_s>[\d.]+) seconds and may be stuck",
        RanksMissing,
        missing=(),
        final=False,
    ),
    # Megascale's digest of a hang: the hosts compiled different programs
    signature(r"Potential cause: (?P<what>Fingerprint mismatch)", CollectiveMismatch),
    # what is going on
    signature(r"Compiling (?:module|jit_)\S{0,80}", PhaseSeen, phase=Phase.COMPILING),
    signature(r"\[Compiling module (?P<detail>\S{1,80})\] Very slow compile", PhaseSeen, phase=Phase.COMPILING),
    signature(
        r"ExecutePortable expects a single-core executable but gets one with (?P<seen>\d+) replica",
        WorldSizeConflict,
        what="replicas of a program",
    ),
    signature(
        r"Requested logical device count \((?P<expected>\d+)\) with replica count \(\d+\) exceeds the number of available physical devices"
        r" on the target \((?P<seen>\d+)\)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(r"Requested more replicas than there are devices", WorldSizeConflict, what="replicas and devices"),
    signature(r"Error: INTERNAL: (?P<what>Unable to enable peer access between GPUs \d+ and \d+)", PeerAccessFault),
    signature(
        r"Attempted to execute with (?P<seen>\d+) (?:argument lists|replicas) when (?:local )?device count is (?P<expected>\d+)",
        WorldSizeConflict,
        what="replicas of a program",
    ),
    signature(
        r"(?<![\w .:/\[\]()-])(?P<op>[\w .:/\[\]()-]{3,300}?) failed to finish in (?:\d+[hms.]{1,3}){1,3}\.?(?:\s|$)",
        CollectiveTimeout,
    ),
    signature(
        r"(?P<what>MPI: Communicator requested from a thread that is not the one MPI was initialized from)",
        ForkOrThread,
    ),
    signature(r"(?P<what>GPU clique [^\n]{1,300}? requested from different device groups)", CollectiveMismatch),
    signature(
        r"Out of range device id in device_assignment: \d+; valid range: \[0, (?P<seen>\d+)\)",
        WorldSizeConflict,
        what="devices",
    ),
    signature(
        r"Device assignment passed to Compile\(\) must have (?P<what>devices of a single kind, got [^\n]{1,120})",
        UnsupportedCombination,
    ),
    signature(
        r"Error: (?:UNKNOWN|INTERNAL): Failed to determine best cudnn convolution algorithm",
        CudaMismatch,
        what="no cuDNN algorithm worked on this GPU",
    ),
)
