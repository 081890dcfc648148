# SPDX-License-Identifier: Apache-2.0
"""Watches a rank's wait from outside while the framework lets no Python thread run. Ends with the wait or the rank."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from keepstep.base.own_line import say_on_own_line
from keepstep.base.safe_files import append
from keepstep.guard.agree.arrivals import Waiting
from keepstep.signals.arrivals import Arrival


def main(arrival: str, notes: str) -> None:
    mine = Arrival(**json.loads(arrival))

    def say(text: str) -> None:
        say_on_own_line(f"keepstep: {f'rank {mine.index}: ' if mine.index is not None else ''}{text}")

    def note(fields: dict[str, Any], words: str) -> None:
        if not notes:
            return
        line: dict[str, Any] = {
            "fact": "RanksArriving",
            "fields": fields,
            "origin": {"source": os.path.basename(notes)},
            "at": time.time(),
        }
        line |= {"rank": {"index": mine.index}} if mine.index is not None else {}
        append(notes, f"{json.dumps({**line, 'quote': words[:1000]})}\n".encode())

    waiting = Waiting(mine, say, note)
    while os.getppid() == mine.pid:
        waiting.look()
        time.sleep(1.0)


if __name__ == "__main__":
    main(*sys.argv[1:3])
