# SPDX-License-Identifier: Apache-2.0
"""Numbers: losses that are lost, replicas that differ, and steps that another rank computes once more."""
