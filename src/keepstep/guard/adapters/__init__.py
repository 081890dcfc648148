# SPDX-License-Identifier: Apache-2.0
"""One file a framework: the hooks that tell the guard what its trainings do. Imported only where the framework is."""
