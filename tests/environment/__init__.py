"""Real Kubernetes control planes for tests, on this machine, gone when the test run is."""

from tests.environment.control_plane import ControlPlane, ControlPlaneError, start_together
from tests.environment.programs import Programs, programs

__all__ = ["ControlPlane", "ControlPlaneError", "Programs", "programs", "start_together"]
