# SPDX-License-Identifier: Apache-2.0
"""Single lines: where they begin and end, who wrote them, and when."""
