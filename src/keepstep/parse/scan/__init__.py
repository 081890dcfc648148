# SPDX-License-Identifier: Apache-2.0
"""How a log is read: what to look for, where it is, who wrote the line and when. No tool is known here by name."""
