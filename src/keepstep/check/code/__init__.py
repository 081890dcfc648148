# SPDX-License-Identifier: Apache-2.0
"""``keepstep check code``: the files of a program become facts, and the rules of ``rules/code`` judge them."""
