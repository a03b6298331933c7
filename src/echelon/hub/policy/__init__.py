"""ValidatingAdmissionPolicies: rules of the users' own for what may be written, and by whom."""
