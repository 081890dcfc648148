# SPDX-License-Identifier: Apache-2.0
"""The tab "keepstep" in TensorBoard: the page of `keepstep watch` for each run that was exported below its logdir.

TensorBoard finds it by an entry point and imports it; nothing else does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin

from keepstep.export.tensorboard_pages import Application, Pages


class KeepstepPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """What TensorBoard asks of a plugin."""

    plugin_name = "keepstep"

    def __init__(self, context: Any) -> None:
        self._pages = Pages(Path(context.logdir or "."))

    def is_active(self) -> bool:
        return bool(self._pages.runs())

    def frontend_metadata(self) -> Any:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="keepstep")

    def get_plugin_apps(self) -> dict[str, Application]:
        return self._pages.routes
