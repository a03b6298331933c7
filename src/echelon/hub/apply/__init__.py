"""Server-side apply and the bookkeeping of who owns which field. Pure functions of decoded objects and schemas."""

from echelon.hub.apply.applying import apply
from echelon.hub.apply.contents import changed, field_set_of
from echelon.hub.apply.fields import FieldSet
from echelon.hub.apply.tracking import reset_fields, track_update

__all__ = ["FieldSet", "apply", "changed", "field_set_of", "reset_fields", "track_update"]
