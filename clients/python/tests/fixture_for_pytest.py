"""The fixture of pytest; package_test.py runs this file with it."""

import pytest

pytest_plugins = ["tickwheel.pytest_plugin"]


@pytest.mark.tickwheel("2027-03-01T00:00Z")
def test_a_week(tickwheel):
    tickwheel.client.create(tickwheel.url("/a"), every="1d")
    assert tickwheel.advance("7d").delivered == 7


def test_each_has_its_own(tickwheel):
    assert (tickwheel.now.year, tickwheel.now.month) == (2027, 1)
    assert tickwheel.advance("7d").delivered == 0
