import pytest

from lab import verdict, world


@pytest.fixture(scope="session")
def lab():
    with world.Lab() as it:
        yield it


@pytest.fixture(scope="session")
def judge(lab):
    return verdict.Judge(lab)
