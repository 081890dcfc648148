# SPDX-License-Identifier: Apache-2.0
"""keepstep must load where no framework is installed, and must never load one to find out."""

from __future__ import annotations

import subprocess
import sys

IMPORT_EVERYTHING = """
import importlib, importlib.util, pkgutil, sys
from importlib.abc import MetaPathFinder

BLOCKED = {"tensorflow", "tf_keras", "keras", "torch", "jax", "jaxlib", "ray", "numpy"}

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} was asked for, and no framework may be")

sys.meta_path.insert(0, Blocker())

import keepstep, keepstep_lab

def failed(name):
    raise

names = []
for root in (keepstep, keepstep_lab):
    names += [m.name for m in pkgutil.walk_packages(root.__path__, f"{root.__name__}.", onerror=failed)]
for name in names:
    # what runs in the training's own processes, and in TensorBoard
    inside = ("keepstep.check.memory.dry_run.", "keepstep_lab.jobs.", "keepstep_lab.guests.programs")
    inside += ("keepstep.export.tensorboard_plugin",)
    if importlib.util.find_spec("starlette") is None:  # keepstep[web]
        inside += ("keepstep.watch.page.gate", "keepstep.watch.page.server")
    if not name.endswith("__main__") and not name.startswith(inside):
        importlib.import_module(name)
loaded = BLOCKED & {name.partition(".")[0] for name in sys.modules}
assert not loaded, loaded
print(len(names))
"""


def test_every_module_loads_with_all_frameworks_blocked() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_EVERYTHING], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
