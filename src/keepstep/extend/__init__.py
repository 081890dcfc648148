# SPDX-License-Identifier: Apache-2.0
"""A user's own rules and signatures: installed ones by entry point, local ones from a named folder.

Two ways in (see docs/your-own-rules.md):

- a package with the entry point group ``keepstep.rules``, naming a module, a package or a rule;
- a ``keepstep.toml``, the nearest one upwards or the one named, with ``[rules] folder = "..."``:
  ``*.py`` files with rules and tables, ``*.toml`` files with signatures.

What is broken is left out and said as coverage, with its file and reason; the rest goes on. Python is run
only from the folder that was named, and from a ``keepstep.toml`` that was merely found only if it is the user's own.
"""

from __future__ import annotations

from keepstep.extend.load import Extensions, find_config, load_extensions

__all__ = ["Extensions", "find_config", "load_extensions"]
