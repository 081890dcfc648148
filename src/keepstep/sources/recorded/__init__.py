# SPDX-License-Identifier: Apache-2.0
"""What keepstep itself recorded during a run."""
