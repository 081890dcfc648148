# SPDX-License-Identifier: Apache-2.0
"""The programs whose checkpoints benchmarks/checkpoint_faults.py damages. They know nothing of keepstep."""
