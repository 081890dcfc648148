# SPDX-License-Identifier: Apache-2.0
"""One folder per framework: hooks that show the guard what a training does. Imported only after the framework."""
