# SPDX-License-Identifier: Apache-2.0
"""What training programs themselves print, whatever they are built on: progress, sizes, ranks, numbers."""
