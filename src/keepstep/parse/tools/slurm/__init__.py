# SPDX-License-Identifier: Apache-2.0
"""Slurm and the other schedulers of batch jobs."""
