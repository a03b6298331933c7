"""ConfigurationPolicies on a cluster: what they find there, what enforcing them writes, and what is told of it."""
