# SPDX-License-Identifier: Apache-2.0
"""The dry run of a JAX script: its programs are lowered and planned, and its arrays have no content."""
