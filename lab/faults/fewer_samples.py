"""The rank's share of the data is smaller: it finishes early while the others go on."""

from typing import Any


def change_data(data: Any) -> Any:
    return type(data)(len(data) - 700)
