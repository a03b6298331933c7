"""Hub-side controllers, one module a capability. They observe, let the engine plan, and act."""
