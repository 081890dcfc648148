# SPDX-License-Identifier: Apache-2.0
"""Text and bytes to facts, pure: ``scan`` reads logs, ``formats`` and ``tools`` know what may stand in them."""
