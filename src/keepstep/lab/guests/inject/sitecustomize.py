# SPDX-License-Identifier: Apache-2.0
"""Runs at the start of every Python process of a broken guest, which knows nothing of it, and strikes from there.

Python imports ``sitecustomize`` by itself when its folder is on PYTHONPATH; the program is not changed. The variables
say which fault (``GUEST_FAULT``) strikes which rank (``GUEST_RANK``) at which step (``GUEST_STEP``), and where to note it (``GUEST_NOTES``).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import time

FAULT = os.environ.get("GUEST_FAULT", "")
RANK = int(os.environ.get("GUEST_RANK", "1"))
STEP = int(os.environ.get("GUEST_STEP", "20"))
NOTES = os.environ.get("GUEST_NOTES", "")
FRAMEWORK = os.environ.get("GUEST_FRAMEWORK", "")
OWN_MODULE = os.environ.get("GUEST_MODULE", "")
"""A module of the program's own, beside it."""


def rank():
    """The rank of this process, as far as it is known by now."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    for name in ("RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def struck(what):
    """Note it once; False where it was noted before (an earlier attempt)."""
    path = os.path.join(NOTES, "struck")
    before = os.path.exists(path)
    with open(path, "a") as notes:
        notes.write(f"{time.time()} {os.getpid()} {what}\n")
    return not before


class Steps:
    """Strikes in a rank's optimizer step, before it is taken."""

    done = 0

    def __call__(self, optimizer, args, kwargs):
        Steps.done += 1
        if Steps.done == 1:
            with open(os.path.join(NOTES, f"rank{rank()}"), "w") as note:
                note.write(str(os.getpid()))
        if Steps.done != STEP or rank() != RANK:
            return
        act = STRIKES.get(FAULT)
        if act is not None:
            act()


def raise_exception():
    struck("raises")
    raise TypeError("unsupported operand type(s) for +: 'NoneType' and 'float'")


def sleep_for_ever():
    if struck("sleeps"):
        while True:
            time.sleep(3600)


def lonely_collective():
    import torch
    import torch.distributed as dist

    struck("issues an all_reduce that no other rank does")
    dist.all_reduce(torch.ones(6))


STRIKES = {"exception": raise_exception, "asleep": sleep_for_ever, "interrupted": sleep_for_ever, "lonely_collective": lonely_collective}


def watch_steps(module):
    module.register_optimizer_step_pre_hook(Steps())


def spoil_batches(module):
    """The batch that a data loader of the struck rank fetches at the step is another."""
    fetch = module._MapDatasetFetcher.fetch
    count = 0

    def spoiled(self, indices):
        nonlocal count
        found = fetch(self, indices)
        count += 1
        if count == STEP and rank() == RANK:
            struck("gets another batch")
            values = found[0].clone()
            if FAULT == "nan_batch":
                values[0] = float("nan")
            else:
                values = values[:, : values.shape[1] - 4]
            found = [values, *found[1:]]
        return found

    module._MapDatasetFetcher.fetch = spoiled


def forget_ddp(module):
    """As if the line that wraps the model had been forgotten, on all ranks."""

    class Forgotten:
        def __new__(cls, module, *args, **kwargs):
            struck("wraps no model")
            return module

    module.DistributedDataParallel = Forgotten


class After(importlib.abc.MetaPathFinder):
    """Calls ``then`` with a module when it has been imported."""

    def __init__(self, then):
        self.then = then

    def find_spec(self, name, path=None, target=None):
        if name == OWN_MODULE and rank() == RANK:
            block_import(name)
        then = self.then.pop(name, None)
        if then is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            then(module)

        spec.loader.exec_module = executed
        return spec


def block_import(name):
    if FAULT == "import_error":
        struck("cannot import")
        raise ImportError(f"cannot import name 'Config' from partially initialized module '{name}'")
    if FAULT == "never_arrives" and struck("does not arrive"):
        while True:
            time.sleep(3600)


def begin():
    if FAULT == "wrong_port" and rank() == RANK and "MASTER_PORT" in os.environ:
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        struck("has the wrong MASTER_PORT")
    then = {"torch.optim.optimizer": watch_steps}
    if FRAMEWORK == "jax":
        import break_jax

        break_jax.misconfigure()
        then["jax._src.distributed"] = break_jax.watch
    if FAULT in ("nan_batch", "other_shape"):
        then["torch.utils.data._utils.fetch"] = spoil_batches
    if FAULT == "ddp_forgotten":
        then["torch.nn.parallel"] = forget_ddp
    sys.meta_path.insert(0, After(then))


if FAULT and NOTES:
    begin()
