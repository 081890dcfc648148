# SPDX-License-Identifier: Apache-2.0
"""NCCL, RCCL and NVSHMEM."""
