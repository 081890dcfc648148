# SPDX-License-Identifier: Apache-2.0
"""What the files of a program mean together: whose function a name is, what a value may be, where two ranks part."""
