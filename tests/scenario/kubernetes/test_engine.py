"""The engine `kubernetes`: workers as Jobs of a real one, from none to a dispatch's result and back."""
import json

import dispatches
import pytest
from operators import wait_until
from workers import BUSYBOX, cluster, needs, place  # noqa: F401  fixtures

pytestmark = needs
SLOW = 120


@pytest.fixture
def registry_place():
    return "postgres"


@pytest.fixture
def who():
    return "root"


def test_a_dispatch_from_no_worker_to_its_result(place):  # noqa: F811
    place.agent("hello", BUSYBOX, "echo", "from a pod")
    id = place.dispatch("hello")
    fleet = place.fleet(once=True)
    assert fleet.count() == (0, 0, "")
    started, = fleet.start("")
    assert fleet.count()[0] == 1
    place.is_over(id)
    assert any("from a pod" in event.get("text", "") for event in dispatches.events(place.operator, id))
    wait_until(lambda: fleet.look(started)[:2] == (True, 0), "the worker exits", SLOW)
    assert fleet.count() == (0, 0, "")
    wait_until(place.is_empty, "nothing is left of it", SLOW)
