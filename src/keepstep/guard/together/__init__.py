# SPDX-License-Identifier: Apache-2.0
"""What all ranks do together or not at all: skip a step, try again, stop, save. A script asks for each of these."""
