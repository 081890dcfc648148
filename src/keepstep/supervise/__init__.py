# SPDX-License-Identifier: Apache-2.0
"""The supervisor: starts ranks, watches them from outside, decides by cause, and is the only code that acts.

The life of one rank, in order:

1. `run.py` (all attempts) makes an `attempt.py` (owns all that is known of one attempt).
2. `start/`: `launch.py` says with which variables, `started_process.py` starts it, from `spares.py` where there is one.
3. `watch/`: `vitals.py` (black boxes, the kernel), `guard_reports.py`, `foreign_ranks.py` (of another launcher),
   `hangs.py` with `hang_detector.py`, and `history_recorder.py`, which keeps what was measured.
4. Something happened (`attempt_context.py`: an `Outcome`): `show/diagnosis.py` explains it.
5. `decide/` (pure): `policy.py` turns a `situation.py` into a `decision.py`.
6. `show/journal.py` announces the decision; only then does `start/ending.py` end the rank, and `run.py` go on.

`watch/companion.py` looks after runs without a supervisor; `start/reaper.py` is the process that outlives a killed one.
"""
