# SPDX-License-Identifier: Apache-2.0
"""What has a form of its own, whoever leaves it: cores, tracebacks, stacks, dumps of the flight recorder."""
