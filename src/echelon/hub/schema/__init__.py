"""What an object may look like: pruning, defaults, validation in Kubernetes' words, rules, metadata."""
