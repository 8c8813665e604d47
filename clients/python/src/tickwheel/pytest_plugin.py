"""The fixture `tickwheel` of pytest, a VirtualTickwheel for each test: pytest_plugins = ["tickwheel.pytest_plugin"].

A mark sets the start: @pytest.mark.tickwheel("2027-03-01T00:00Z").
"""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from .testing import VirtualTickwheel


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "tickwheel(start, *flags): the start of the virtual clock, and flags of tickwheeld")


def _tickwheel(request: Any) -> Iterator[VirtualTickwheel]:
    mark = request.node.get_closest_marker("tickwheel")
    with VirtualTickwheel(*(mark.args if mark else ())) as tickwheel:
        yield tickwheel


tickwheel = pytest.fixture(name="tickwheel")(_tickwheel)
