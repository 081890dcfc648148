# SPDX-License-Identifier: Apache-2.0
"""The leader: who takes part, where ranks sit, and one attempt on all nodes."""
