"""The labels by which everything that was installed is found again."""

from echelon import __version__
from echelon.api.base import JSONObject


def selector_of(component: str) -> JSONObject:
    """Return the labels by which pods of a component are selected; they never change."""
    return {"app.kubernetes.io/name": "echelon", "app.kubernetes.io/component": component}


def labels_of(component: str) -> JSONObject:
    """Return the labels of what belongs to a component."""
    return {**selector_of(component), "app.kubernetes.io/part-of": "echelon", "app.kubernetes.io/version": __version__}
