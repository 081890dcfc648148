# SPDX-License-Identifier: Apache-2.0
"""A function called on many things in forks of this process, which share what is loaded. They end when it does."""

from __future__ import annotations

import pickle
import signal
import sys
from collections.abc import Callable

from keepstep.base.worker_pool import Messages, Result, Send, Task, Worker, WorkerPool

PR_SET_PDEATHSIG = 1


class ForkedCalls(WorkerPool[Task, Result]):
    """Results come as they are ready. What the function raises is raised here.

    ``lost`` makes the result of a task that brought its process down. Both sides are this program, so they pickle.
    """

    def __init__(
        self, count: int, function: Callable[[Task], Result], lost: Callable[[Task, int | None], Result]
    ) -> None:
        super().__init__(count)
        self._function, self._lost = function, lost

    def start(self) -> Worker:
        return Worker.fork(self._serve)

    def request(self, tasks: list[Task]) -> bytes:
        return pickle.dumps(tasks)

    def answered(self, task: Task, message: bytes) -> Result:
        result, error = pickle.loads(message)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def lost(self, task: Task, worker: Worker, status: int | None) -> Result:
        return self._lost(task, status)

    def _serve(self, requests: Messages, send: Send) -> None:
        end_with_parent()
        for request in requests:
            for task in pickle.loads(request):
                try:
                    send(pickle.dumps((self._function(task), None)))
                except Exception as error:
                    send(pickle.dumps((None, error)))


def end_with_parent() -> None:
    """When a signal ends the parent, its forks end too."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
