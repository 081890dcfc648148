# SPDX-License-Identifier: Apache-2.0
"""Open MPI, MPICH and their kin."""
