# SPDX-License-Identifier: Apache-2.0
"""The only readers of the world: files, processes, cores, the kernel, schedulers."""
