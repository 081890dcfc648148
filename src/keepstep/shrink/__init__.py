# SPDX-License-Identifier: Apache-2.0
"""`keepstep shrink`: the smallest program that still fails in the same way.

`shrink.py` calls one reduction after the other (`reductions.py`); they propose candidates to the search (`search.py`).
A candidate (`program.py`: the edits that make it) is tried by `trials.py` in a process of its own
(`trial_process.py`), away from the world, and judged by keepstep's own report (`same_failure.py`).
`collectives_alone.py` writes a program of nothing but the collectives of a run. `result.py` writes the folder that is
handed over.
"""
