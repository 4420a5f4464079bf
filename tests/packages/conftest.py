"""The archive that several tests look at."""
import pytest

from packing import pack, run


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tarball")
    key = folder / "key.pem"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
    run("openssl", "pkey", "-in", key, "-pubout", "-out", folder / "public.pem")
    return pack(folder / "out", key), folder / "public.pem", key
