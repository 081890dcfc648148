# SPDX-License-Identifier: Apache-2.0
"""Configuration keys of TensorFlow's coordination service, which every multi-worker strategy runs.

A key cannot be replaced, only deleted and written again. A read waits at the service for as long as it is asked to;
versions that take no time limit (before about 2.16) wait for ever, so a separate thread waits for each key.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from typing import Any

from keepstep.guard.adapters.tensorflow.tensorflow_state import inside

PATIENT_MS, IMPATIENT_MS = 20, 3
"""How long a read waits for its key: when the training waits for the answer, and when the guard's thread looks."""
MOST_THREADS = 64


class ConfigKeys:
    """``put`` and ``get`` over the agent's own connection to the service. A call takes a fraction of a millisecond."""

    name = "TensorFlow's coordination service"
    overwrites = True

    def __init__(self, context: Any) -> None:
        self._context = context
        self._written: set[str] = set()
        self._waits: dict[str, _KeyWait] = {}
        known = inspect.signature(context.get_config_key_value).parameters
        self._can_time_out = "timeout_in_ms" in known
        self._can_delete = hasattr(context, "delete_config_key_value")
        self.overwrites = self._can_delete

    def put(self, key: str, value: str) -> None:
        if key in self._written:
            self._context.delete_config_key_value(key)
        self._written.add(key)
        self._context.set_config_key_value(key, value)

    def get(self, key: str) -> str | None:
        if not self._can_time_out:
            return self._from_thread(key)
        patient = threading.current_thread().name != "keepstep"
        try:
            return str(self._context.get_config_key_value(key, PATIENT_MS if patient else IMPATIENT_MS))
        except Exception as error:
            if type(error).__name__ in ("DeadlineExceededError", "NotFoundError"):
                return None
            raise

    def _from_thread(self, key: str) -> str | None:
        wait = self._waits.get(key)
        if wait is None:
            if len([each for each in self._waits.values() if each.is_alive()]) >= MOST_THREADS:
                raise RuntimeError(f"more than {MOST_THREADS} keys are waited for")
            wait = self._waits[key] = _KeyWait(self._context, key)
            wait.start()
        wait.join(0.02 if threading.current_thread().name != "keepstep" else 0.0)
        if wait.is_alive():
            return None
        del self._waits[key]
        if wait.error is not None:
            raise wait.error
        return wait.value


def of_formed_world() -> tuple[ConfigKeys, int, int] | None:
    """With the own rank and the number of ranks, by TF_CONFIG; None before a strategy has formed a world."""
    context = inside("eager.context").context_safe()
    if getattr(context, "coordination_service", None) is None:
        return None
    from keepstep.cluster import understand

    cluster = understand()
    if cluster is None or cluster.me is None:
        return None
    return ConfigKeys(context), cluster.me, cluster.size


class _KeyWait(threading.Thread):
    """Waits for a key, possibly for ever: TensorFlow releases the interpreter's lock meanwhile."""

    def __init__(self, context: Any, key: str) -> None:
        super().__init__(name="keepstep-wait", daemon=True)
        self._context, self._key = context, key
        self.value: str | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.value = str(self._context.get_config_key_value(self._key))
        except Exception as error:
            with contextlib.suppress(Exception):
                self.error = error
