# SPDX-License-Identifier: Apache-2.0
"""What can still be said of an error that no signature knows: its words, weighed by a table of causes."""
