"""The rank's labels go one past the last class."""

from typing import Any


def change_data(data: Any) -> Any:
    return data.map(lambda inputs, labels: (inputs, labels + 1))
