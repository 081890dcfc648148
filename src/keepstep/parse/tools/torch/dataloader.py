# SPDX-License-Identifier: Apache-2.0
"""Deaths of data-loading worker processes, as PyTorch's DataLoader and Python's own pools word them."""

from __future__ import annotations

from keepstep.model.facts.resource import LoaderWorkerDied
from keepstep.model.facts.training import Slowness
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    signature(
        r"DataLoader (?:worker|process) \(pid ?(?P<pid>\d+)\) (?:exited )?is killed by signal: (?P<signal>[A-Z][A-Za-z ]+?)"
        r"(?:\s*\(core dumped\))?\s*(?:\.|$)",
        LoaderWorkerDied,
    ),
    signature(
        r"Caught (?:ConnectionResetError|EOFError|ConnectionRefusedError|BrokenPipeError|FileNotFoundError) in pin memory thread",
        LoaderWorkerDied,
    ),
    # a tensor's file descriptor is requested from the process that made it, which has ended
    signature(r"multiprocessing[/\\]resource_sharer\.py\", line \d+, in (?:get_connection|detach)\b", LoaderWorkerDied),
    signature(
        r"DataLoader worker (?:\(pid ?(?P<pid>\d+)\) )?exited unexpectedly with exit code -?\d+", LoaderWorkerDied
    ),
    signature(r"DataLoader worker \(pid\(s\) (?P<pid>\d+)[\d, ]*\) exited unexpectedly", LoaderWorkerDied),
    signature(
        r"DataLoader (?:worker|process) \(pid ?(?P<pid>\d+)\) exited unexpectedly with (?:exit )?code", LoaderWorkerDied
    ),
    signature(r"(?:One or more|Some) background workers are no longer alive", LoaderWorkerDied),
    # its signal handlers, before the parent says so; a bus error is in the table of shared memory
    signature(
        r"ERROR: Unexpected (?P<signal>segmentation fault|floating-point exception) encountered in worker\.",
        LoaderWorkerDied,
    ),
    signature(r"Pin memory thread exited unexpectedly", LoaderWorkerDied),
    signature(r"RuntimeError: DataLoader timed out after (?P<detail>[\d.]+ seconds)", Slowness, what="loader"),
    signature(r"Worker timed out after (?P<detail>\d+ seconds)\. This might be caused by", Slowness, what="loader"),
    signature(r"A process in the process pool was terminated abruptly", LoaderWorkerDied),
    signature(r"joblib\.externals\.loky\.process_executor\.TerminatedWorkerError", LoaderWorkerDied),
    signature(r"A worker process managed by the executor was unexpectedly terminated", LoaderWorkerDied),
    signature(r"One of the subprocesses has abruptly died during map operation", LoaderWorkerDied),
)
