# SPDX-License-Identifier: Apache-2.0
"""One folder per framework: the hooks that show the guard what a training does. Imported only where the framework is."""
