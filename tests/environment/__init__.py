"""Real Kubernetes control planes for tests, on this machine, gone when the test run is."""

from tests.environment.access import Access, Administrator
from tests.environment.control_plane import ControlPlane, ControlPlaneError, start_together
from tests.environment.programs import Programs, programs

__all__ = ["Access", "Administrator", "ControlPlane", "ControlPlaneError", "Programs", "programs", "start_together"]
