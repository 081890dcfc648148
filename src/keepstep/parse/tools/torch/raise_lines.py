# SPDX-License-Identifier: Apache-2.0
"""Source lines of PyTorch that a traceback shows last, where the log ends before the error message itself.

Reports often stop there. Only lines that can fail in just one way are here. The message is then that of the source,
with `{}` for the values, and cut where the literal continues on the next line.
"""

from __future__ import annotations

from keepstep.model.facts.config import RankVariableMissing
from keepstep.model.facts.data import UnevenShards
from keepstep.model.facts.environment import UnsupportedCombination
from keepstep.model.facts.resource import LoaderWorkerDied
from keepstep.model.facts.training import CheckpointMismatch, CheckpointUnreadable, NonFinite, Slowness
from keepstep.parse.scan.signature import signature

SIGNATURES = (
    # torch/distributed
    signature(r"raise _env_error\((?:['\"](?P<name>[A-Z_]{4,40})['\"])?", RankVariableMissing),
    signature(
        r"raise \w+\(['\"]Default process group has not been initialized, ?['\"]",
        RankVariableMissing,
        name="the process group",
    ),
    signature(
        r"raise RuntimeError\(\"Distributed package doesn't have (?P<what>\w+) ?\" *\"?(?:built in|$)",
        lambda m: UnsupportedCombination(what=f"the {m['what']} backend, which this build of PyTorch does not have"),
    ),
    # torch/utils/data
    signature(
        r"raise ValueError\(f?['\"]num_samples should be a positive integer ?['\"]",
        UnevenShards,
        detail="a rank's dataset is empty",
    ),
    signature(
        r"^\s*_error_if_any_worker_fails\(\)|raise RuntimeError\(f?['\"]DataLoader worker \(pid\(s\) \{",
        LoaderWorkerDied,
    ),
    signature(r"raise RuntimeError\(f?['\"]DataLoader timed out after \{", Slowness, what="loader"),
    # torch/serialization, torch/nn, torch/optim
    signature(
        r"raise RuntimeError\(f?['\"]unexpected EOF, expected \{", CheckpointUnreadable, why="the file ends early"
    ),
    signature(r"raise RuntimeError\(f?['\"]Error\(s\) in loading state_dict for \{", CheckpointMismatch),
    signature(
        r"raise ValueError\(['\"](?P<detail>loaded state dict (?:contains a parameter group|has a different number of)) ?['\"]",
        CheckpointMismatch,
    ),
    # loss scalers of fairseq and of those that took it over
    signature(r"raise FloatingPointError\(\(?f?['\"]Minimum loss scale reached \(", NonFinite, what="loss"),
)
