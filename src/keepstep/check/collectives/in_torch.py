# SPDX-License-Identifier: Apache-2.0
"""One rank of a torch job that only tries collectives. A program of its own: ``python -m ... PLAN``."""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from keepstep.check.collectives.child import Difference, Round, differences, plan_given, say, timed, try_all
from keepstep.check.collectives.links import own_end
from keepstep.check.collectives.plan import LINK_SIZE_GPU, Trial, given, length, numbers, wanted


def main() -> None:
    plan = plan_given()
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")
    has_gpu = torch.cuda.is_available()
    backend = plan.backend or ("nccl" if has_gpu else "gloo")
    on_gpu = has_gpu and "nccl" in backend
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    device = torch.device("cuda" if on_gpu else "cpu")
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=plan.limit_s))
    rank, world = dist.get_rank(), dist.get_world_size()
    if on_gpu:
        plan = replace(plan, link_size=LINK_SIZE_GPU)
    say(backend=backend, world=world, version=torch.__version__, link_size=plan.link_size)
    known: dict[tuple[int, ...], Any] = {tuple(range(world)): dist.group.WORLD}

    def attempt(trial: Trial) -> Round | None:
        for each in trial.groups:
            if each not in known:
                known[each] = dist.new_group(list(each))
        members = next((each for each in trial.groups if rank in each), None)
        if members is None:
            return None
        given_out = numbers(trial, torch.arange(length(trial, world))).to(torch.int32)
        dtype = getattr(torch, trial.dtype)
        mine = given(trial, given_out, rank).to(dtype).to(device)
        want = wanted(trial, given_out, rank, torch.cat).to(dtype).to(device)
        call = _call(dist, trial.operation, known[members], members[0])

        def once() -> tuple[float, list[Difference]]:
            before, after = mine.clone(), torch.full_like(want, -1)
            if on_gpu:
                torch.cuda.synchronize()
            dist.barrier(group=known[members])
            took, got = timed(lambda: _finished(torch, on_gpu, call(after, before)))
            return took, differences(got, want, rank, lambda wrong: wrong.nonzero().flatten())

        return once

    gpu = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid) if on_gpu else None
    try_all(plan, world, attempt, _Store(dist, rank, world), own_end(gpu))
    dist.destroy_process_group()


class _Store:
    """That by which the ranks found each other."""

    def __init__(self, dist: Any, rank: int, world: int) -> None:
        self.rank, self._world = rank, world
        self._store = dist.distributed_c10d._get_default_store()
        self._numbers = count()

    def share(self, text: str) -> list[str]:
        number = next(self._numbers)
        self._store.set(f"keepstep/{number}/{self.rank}", text)
        return [self._store.get(f"keepstep/{number}/{each}").decode() for each in range(self._world)]

    def agree(self, about: str, group: Sequence[int], text: str) -> str:
        """What the first of the group says."""
        key = f"keepstep/{about}/{group[0]}"
        if self.rank == group[0]:
            self._store.set(key, text)
            return text
        return str(self._store.get(key).decode())


def _finished(torch: Any, on_gpu: bool, result: Any) -> Any:
    if on_gpu:
        torch.cuda.synchronize()
    return result


def _call(dist: Any, operation: str, group: Any, first: int) -> Callable[[Any, Any], Any]:
    """The collective: from what is given (the second) to what must be compared."""
    if operation == "all_reduce":
        return lambda _, mine: (dist.all_reduce(mine, group=group), mine)[1]
    if operation == "broadcast":
        return lambda _, mine: (dist.broadcast(mine, src=first, group=group), mine)[1]
    whole = {
        "reduce_scatter": dist.reduce_scatter_tensor,
        "all_gather": dist.all_gather_into_tensor,
        "all_to_all": dist.all_to_all_single,
    }[operation]
    return lambda result, mine: (whole(result, mine, group=group), result)[1]


if __name__ == "__main__":
    main()
