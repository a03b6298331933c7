"""What is written on whatever a cluster gets (a work, a replica of a policy), for the next plan and for agents."""

REVISION_ANNOTATION = "echelon.dev/revision"  # what it holds; a hint, its content decides
WRITTEN_ANNOTATION = "echelon.dev/written-at"  # when it got that; no clock begins before
HELD_ANNOTATION = "echelon.dev/held"  # "true": only to be looked at, until its turn
RETRIED_ANNOTATION = "echelon.dev/retried-at"  # another value makes the agent try again
TURNED_ANNOTATION = "echelon.dev/turned-bad-at"  # when it stopped working after it had worked with that

# On the object that is rolled out: its status, as far as the hub's definition of it has no room for that.
STATUS_ANNOTATION = "echelon.dev/rollout-status"
