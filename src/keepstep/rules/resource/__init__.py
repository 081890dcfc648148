# SPDX-License-Identifier: Apache-2.0
"""Memory, disks and limits that ran out."""
