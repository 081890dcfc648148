# SPDX-License-Identifier: Apache-2.0
"""The function that JAX calls after every execution in C++. It exists for `jax_debug_nans`; ours is called first.

JAX sets it again, for all threads or for one, whenever `jax_debug_nans` or `jax_debug_infs` changes, also briefly in
its own code. Whatever JAX sets there is still called as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from keepstep.guard.protocols import Recurs

PART = "JAX's executions"
MARK = "keepstep_before"


class Executions(Protocol):
    """What sees every execution: it makes the hook, and puts it back by ``mend``."""

    mend: Callable[[], None]

    def hook(self, before: Any = None) -> Callable[..., None]: ...


class PostHook:
    """Reads and sets the hook where this version of JAX keeps it. Raises if it has none."""

    def __init__(self) -> None:
        from jax._src import api

        state: Any = getattr(api, "_post_hook_state", None)
        if state is not None:
            self.get, self.put, self.get_local, self.put_local = (
                state.get_global,
                state.set_global,
                state.get_local,
                state.set_local,
            )
            self.none_hides = True
            """True: a thread whose own hook is None has no hook. False: it has the one for all threads."""
        else:
            from jax._src.lib import jax_jit

            everywhere: Any = jax_jit.global_state()
            own: Any = jax_jit.thread_local_state
            self.get, self.put = (lambda: everywhere.post_hook), (lambda hook: setattr(everywhere, "post_hook", hook))
            self.get_local, self.put_local = (lambda: own().post_hook), (lambda hook: setattr(own(), "post_hook", hook))
            self.none_hides = False
        self.get()


def watch(session: Recurs, runs: Executions) -> None:
    """Put ours in front of the hook, and keep it there."""
    post = PostHook()
    mend = session.guarded(PART, functools.partial(_mend, session, runs, post))
    mend_own = session.guarded(PART, functools.partial(_mend_own, session, runs, post))
    mend()
    from jax._src import config

    for name in ("debug_nans", "debug_infs"):
        option: Any = getattr(config, name)
        option._update_global_hook = _followed_by(option._update_global_hook, mend)
        option._update_thread_local_hook = _followed_by(option._update_thread_local_hook, mend_own)
    session.pulse.every(1.0, PART, mend)
    runs.mend = mend


def _mend(session: Recurs, runs: Executions, post: PostHook) -> None:
    now = post.get()
    ours = hasattr(now, MARK)
    if session.is_off(PART):
        if ours:
            post.put(getattr(now, MARK))
    elif not ours:
        post.put(runs.hook(now))


def _mend_own(session: Recurs, runs: Executions, post: PostHook) -> None:
    """The hook of this thread alone."""
    now = post.get_local()
    if hasattr(now, MARK) or session.is_off(PART):
        return
    if (now is None and post.none_hides) or callable(now):
        post.put_local(runs.hook(now))


def _followed_by(update: Callable[[Any], None], mend: Callable[[], None]) -> Callable[[Any], None]:
    @functools.wraps(update)
    def update_and_mend(value: Any) -> None:
        update(value)
        mend()

    return update_and_mend
