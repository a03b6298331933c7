"""The controller of PodCliqueSets: gangs of pods that are scheduled, scaled and updated together."""
