# SPDX-License-Identifier: Apache-2.0
"""The operating system: kernel, C library, loader, shell, limits, disks."""
