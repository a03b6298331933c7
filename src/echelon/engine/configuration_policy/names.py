"""What is written on ConfigurationPolicies besides what the API has."""

from echelon.api.policy import GROUP

# Keeps a policy until its objects are pruned.
FINALIZER = f"{GROUP}/delete-related-objects"
# The objects that enforcing has touched, for as long as the status alone does not tell; see `pruning`.
LEDGER_ANNOTATION = "echelon.dev/enforced-objects"
