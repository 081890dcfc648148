# SPDX-License-Identifier: Apache-2.0
"""The trainings that benchmarks/comeback.py breaks: each saves now and then, resumes, and writes down when each step
ended."""
