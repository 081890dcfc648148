# SPDX-License-Identifier: Apache-2.0
"""Small but real distributed trainings; each file is a script that a launcher starts once per rank."""
