# SPDX-License-Identifier: Apache-2.0
"""One rank of a job without a framework, started by `keepstep run`: steps that take a moment, until it is to stop."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import keepstep


def main(what: str) -> None:
    rank, guard = int(os.environ["KEEPSTEP_RANK"]), keepstep.guard.attach()
    if what == "hook":
        keepstep.on_preemption(lambda: Path(f"saved-{rank}").write_text(str(done)))
    for done in guard.steps(range(1, 100_000)):
        if what == "one" and rank == 1 and done == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        if what == "fork" and done == 5:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.write(writing, b".")  # what comes before this, Python itself forgets
                time.sleep(600)
            os.read(reading, 1)
            os.kill(child, signal.SIGTERM)
            Path(f"child-{rank}").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        if done == 10:
            Path(f"ready-{rank}").write_text("1")
            if what == "evaluation" and rank == 0:
                time.sleep(3)
            if what == "long evaluation" and rank == 0:
                with guard.phase("evaluation"):
                    Path("evaluates").write_text("1")
                    time.sleep(600)
        if what != "deaf" and keepstep.should_save():
            Path(f"on-request-{rank}").write_text(str(done))
        if what != "hook" and keepstep.should_stop():
            with guard.phase("checkpoint"):
                Path(f"saved-{rank}").write_text(str(done))
            sys.exit(143)
        time.sleep(0.01 * (1 + rank))  # without a collective, nothing keeps them abreast


if __name__ == "__main__":
    main(sys.argv[1])
