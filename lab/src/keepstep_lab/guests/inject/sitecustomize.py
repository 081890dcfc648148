# SPDX-License-Identifier: Apache-2.0
"""Runs at the start of every Python process of a broken guest, which knows nothing of it, and strikes from there.

Python imports ``sitecustomize`` by itself when its folder is on PYTHONPATH; the program is not changed. The variables
say which fault (``GUEST_FAULT``) strikes which rank (``GUEST_RANK``) at which step (``GUEST_STEP``), and where to note
it (``GUEST_NOTES``).
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import time

from strikes import FAULT, FRAMEWORK, NOTES, OWN_MODULE, RANK, STEP, STRIKES, raise_exception, sleep_for_ever, struck

TF = "tensorflow.python"


def rank():
    """The rank of this process, as far as it is known by now."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    for name in ("RANK", "LOCAL_RANK"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    if "TF_CONFIG" in os.environ:
        return json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    return None


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


def watch_steps(module):
    module.register_optimizer_step_pre_hook(Steps())


def spoil_batches(module):
    """The batch that a data loader of the rank it hits fetches at that step is replaced."""
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


def watch_functions(module):
    original = module.Function.__call__

    @functools.wraps(original)
    def call(self, *args, **kwargs):
        from tensorflow.python.eager import context

        if context.executing_eagerly():
            self._guest_calls = getattr(self, "_guest_calls", 0) + 1
            if self._guest_calls == STEP and rank() == RANK and FAULT in TF_STRIKES:
                TF_STRIKES[FAULT]()
        return original(self, *args, **kwargs)

    module.Function.__call__ = call


def signal_itself(number):
    def strike():
        if struck(f"gets {number.name}"):
            os.kill(os.getpid(), number)

    return strike


TF_STRIKES = {
    "exception": raise_exception,
    "asleep": sleep_for_ever,
    "interrupted": sleep_for_ever,
    "killed": signal_itself(signal.SIGKILL),
    "stopped": signal_itself(signal.SIGSTOP),
}
"""A small TensorFlow training is over before a signal from outside would find it in the middle."""


def spoil_datasets(module):
    """A batch of the rank it hits is replaced, however its data are shuffled and sharded."""
    batch = module.DatasetV2.batch

    @functools.wraps(batch)
    def spoiled(self, *args, **kwargs):
        import tensorflow as tf

        def other(number, values, *rest):
            chosen = tf.equal(number, STEP // 2)  # of each epoch, which has no more than STEP
            if FAULT == "nan_batch":
                values = tf.where(chosen, tf.fill(tf.shape(values), float("nan")), values)
            else:
                values = tf.cond(chosen, lambda: values[:, : values.shape[1] - 4], lambda: values)
                values = tf.ensure_shape(values, (None, 8))
            return (values, *rest)

        found = batch(self, *args, **kwargs)
        if rank() != RANK:
            return found
        struck("gets another batch")
        return found.enumerate().map(lambda number, element: other(number, *element))

    module.DatasetV2.batch = spoiled


def watch_joining(module):
    original = module.CollectiveAllReduceStrategy.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        if FAULT == "wrong_port" and rank() == RANK:
            struck("has the wrong port of task 0 in its TF_CONFIG")
        elif rank() == RANK and struck("does not arrive"):
            while True:
                time.sleep(3600)
        original(self, *args, **kwargs)

    module.CollectiveAllReduceStrategy.__init__ = init


def begin_with_wrong_cluster():
    """Start again with a TF_CONFIG that names another port for task 0, as if the user had set it so."""
    config = json.loads(os.environ["TF_CONFIG"])
    tasks = config["cluster"]["worker"]
    host, _, port = tasks[0].rpartition(":")
    tasks[0] = f"{host}:{int(port) + 1}"
    os.environ |= {"TF_CONFIG": json.dumps(config), "GUEST_STRUCK": "1"}
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


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
    if FAULT == "wrong_port" and rank() == RANK and FRAMEWORK == "torch" and "MASTER_PORT" in os.environ:
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        struck("has the wrong MASTER_PORT")
    elif FAULT == "wrong_port" and rank() == RANK and "TF_CONFIG" in os.environ and "GUEST_STRUCK" not in os.environ:
        begin_with_wrong_cluster()
    then = {
        "torch.optim.optimizer": watch_steps,
        f"{TF}.eager.polymorphic_function.polymorphic_function": watch_functions,
    }
    if FRAMEWORK == "jax":
        import break_jax

        break_jax.misconfigure()
        then["jax._src.distributed"] = break_jax.watch
    if FAULT in ("nan_batch", "other_shape"):
        then["torch.utils.data._utils.fetch"] = spoil_batches
        then[f"{TF}.data.ops.dataset_ops"] = spoil_datasets
    if FAULT in ("never_arrives", "wrong_port"):
        then[f"{TF}.distribute.collective_all_reduce_strategy"] = watch_joining
    if FAULT == "ddp_forgotten":
        then["torch.nn.parallel"] = forget_ddp
    sys.meta_path.insert(0, After(then))


if FAULT and NOTES:
    begin()
