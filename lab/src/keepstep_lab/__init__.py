# SPDX-License-Identifier: Apache-2.0
"""Real faults on real jobs, on demand.

``jobs/`` are small real trainings, ``faults/`` break them, ``scenarios/`` say which fault strikes which job and what
keepstep must say of it. Jobs and the inner halves of faults run in the training's own processes, from a copy outside
the package, so they look like anyone's script; the lab itself imports no framework.
"""
