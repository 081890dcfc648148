# SPDX-License-Identifier: Apache-2.0
"""The dry run of a TensorFlow script: its functions are traced and planned, but not run."""
