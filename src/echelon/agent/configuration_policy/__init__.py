"""Evaluates the ConfigurationPolicies of a cluster: asks the cluster what the engine wants to know, and tells."""
