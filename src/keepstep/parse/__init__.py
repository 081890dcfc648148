# SPDX-License-Identifier: Apache-2.0
"""Text and bytes to facts: one file a tool or format, pure."""
