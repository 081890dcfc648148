# SPDX-License-Identifier: Apache-2.0
"""How a log is read: which words to look for, where they stand, who wrote the line and when. It knows no tool by name."""
