# SPDX-License-Identifier: Apache-2.0
"""What is known about the text of training programs: bugs that show before anything runs."""
