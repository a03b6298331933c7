"""The hubs on which stories are told."""

import pytest

from tests.controllers.targets import Told, on_embedded, on_kubernetes


@pytest.fixture(params=["embedded", "kubernetes"])
def tell(request: pytest.FixtureRequest) -> Told:
    """Tells a story on the embedded hub, and on a real kube-apiserver."""
    return on_embedded if request.param == "embedded" else on_kubernetes(request.getfixturevalue("control_plane"))
