# SPDX-License-Identifier: Apache-2.0
"""How all ranks come to do something after the same step, and the pause, which needs no call in the script."""
