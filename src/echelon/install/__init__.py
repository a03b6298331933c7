"""How Echelon gets into a cluster: manifests with settings, from which plain manifests and Helm charts are made."""
