"""What the controllers of every kind of rollout share: decisions, bound clusters, failed writes, the reconciler."""
