"""localstripe, the TLS front and the sidecar, made anew for each test; each ended by its own handle."""

import pytest

import certificates
import local_stripe
from front import Front
from refunds import CREDENTIAL, Refunds


@pytest.fixture
def localstripe(tmp_path):
    with local_stripe.running(tmp_path) as port:
        yield local_stripe.LocalStripe(port, CREDENTIAL)


@pytest.fixture
def front(localstripe, tmp_path):
    certificates.make(tmp_path / "provider", "api.stripe.com")
    front = Front(localstripe.port, tmp_path / "provider")
    yield front
    front.close()


@pytest.fixture
def sidecar(front, tmp_path):
    folder = tmp_path / "sidecar"
    folder.mkdir()
    sidecar = Refunds(folder, front.port, tmp_path / "provider" / "ca.pem")
    try:
        yield sidecar.start()
    finally:
        sidecar.stop()
