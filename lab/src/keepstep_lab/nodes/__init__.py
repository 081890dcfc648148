# SPDX-License-Identifier: Apache-2.0
"""Faults between the nodes of a run: real agents on machines of their own, and what `keepstep run` must make of it.

``table.py`` has the scenarios, ``acts.py`` what is done to them, and ``trial.py`` carries one out and judges it. Ranks
are small programs that need no framework: they write down when they ran, so two attempts at once would be seen.
"""
