"""Who asks, and whether they may: keys, identities, roles, and the record of it."""
