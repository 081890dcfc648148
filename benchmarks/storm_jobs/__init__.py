# SPDX-License-Identifier: Apache-2.0
"""The training that benchmarks/fault_storm.py breaks."""
