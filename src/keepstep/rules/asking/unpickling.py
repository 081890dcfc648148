# SPDX-License-Identifier: Apache-2.0
"""What the bytes were that could not be unpickled: a checkpoint, input, another rank's data, or a child's task."""

from __future__ import annotations

from keepstep.rules.api import CheckpointUnreadable, Evidence, EvidenceSet, ExceptionRaised, Fact, lazy_pattern
from keepstep.rules.asking.exceptions import lost_its_parent

LINES_ABOVE = 160
_LOADER = "in DataLoader worker process"
_OF_INPUT = frozenset(
    "__getitem__ _worker_loop _next_data _process_data _prepare_train_img prepare_train_img get_data_info".split()
)
_OF_RANKS = lazy_pattern(
    r"^(?:_tensor_to_object|all_gather_list|(?:all_)?gather(?:_object)?|(?:broadcast|scatter|recv)_object_list"
    r"|collect_results(?:_gpu)?|reduce_dict)$"
)
_OF_CHECKPOINTS = lazy_pattern(
    r"(?i)^_?(?:load|restore|resume)\w*(?:ckpt|checkpoint|state_?dict|weights|pretrained|model)|^from_pretrained$"
)


def of_input(seen: EvidenceSet, place: Evidence[CheckpointUnreadable]) -> bool:
    """Whether it was read as input, not as a checkpoint."""
    around = _around(seen, place)
    names = {frame.function.rpartition(".")[2] for e in around for frame in e.fact.frames}
    if any(_OF_CHECKPOINTS.match(name) for name in names):
        return False
    return bool(names & _OF_INPUT) or any(_LOADER in e.fact.message for e in around)


def of_ranks(seen: EvidenceSet, place: Evidence[CheckpointUnreadable]) -> bool:
    """Whether the bytes came from another rank: then the ranks are out of step."""
    return any(
        _OF_RANKS.match(frame.function.rpartition(".")[2]) for e in _around(seen, place) for frame in e.fact.frames[-4:]
    )


def of_a_parent(seen: EvidenceSet, place: Evidence[CheckpointUnreadable]) -> bool:
    """Whether the bytes were the task of a spawned process, cut short because its parent ended."""
    return any(lost_its_parent(e.fact) for e in seen.raised_around(place))


def _around(seen: EvidenceSet, place: Evidence[Fact]) -> list[Evidence[ExceptionRaised]]:
    """The exception whose printed lines contain this, and the one that passes it on from a loader worker."""
    above = seen.near(place, ExceptionRaised, before=LINES_ABOVE)
    return [*seen.raised_around(place), *(e for e in above if _LOADER in e.fact.message)]
