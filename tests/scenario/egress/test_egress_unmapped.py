"""Gate and courier where AppArmor lets them make user namespaces and takes every right in these away, as on
Ubuntu without a profile for cloister.

The mutant build leaves the mapping of their ids out on any system.
"""
import pytest

from egress_lab import CURL
from operators import copy_mutant

CODE = [*CURL, "-o", "/dev/null", "-w", "%{http_code}"]


@pytest.fixture
def program(ground):
    """In place of the fixture that `operator` uses."""
    return copy_mutant(ground)


def test_requests_pass_all_the_same(online):
    online.operator.env["CLOISTER_OFF"] = "helper-map"
    online.start("  - allow: up.example.test\n    methods: [GET]\n", "sleep", "1000")
    assert online.inside(*CODE, "https://up.example.test/echo").ok() == "200"
    assert online.inside(*CODE, "-d", "x", "https://up.example.test/echo").ok() == "403"
