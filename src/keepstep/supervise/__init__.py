# SPDX-License-Identifier: Apache-2.0
"""The supervisor: starts ranks, watches them from outside, decides by cause, and is the only code that acts.

The life of one rank, in order:

1. `run.py` (all attempts) makes an `attempt.py` (owns all that is known of one attempt).
2. Start: `launch.py` says with which variables, `members.py` starts it, from `spares.py` where there is one.
3. Watch: `output.py` keeps what it prints; `watching.py` asks `vitals.py` (black boxes, the kernel), `told.py` (what
   its guard reports), `below.py` (ranks of a foreign launcher) and `hangs.py` (with `stopped.py` and `looking.py`).
4. Something happened (`started.py`: an `Outcome`): `records.py` writes it down, `diagnosis.py` explains it.
5. Decide (pure): `policy.py` turns a `situation.py` into a `decision.py`, with `returning.py` (does the cause come
   back?), `history.py`, `waiting.py`, `lost_work.py` and `remedy.py`.
6. `account.py` announces the decision; only then does `ending.py` end the rank, and `run.py` begin the next attempt.

`shadow.py` is the companion of runs without a supervisor; `reaper.py` is the process that outlives a killed one.
An agent that supervises one node of several belongs beside `run.py`: it owns attempts on its node, and the decision is
made elsewhere.
"""
