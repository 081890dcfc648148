# SPDX-License-Identifier: Apache-2.0
"""Collectives: those that the script issues, what torch records of them, and what ranks say of each other."""
