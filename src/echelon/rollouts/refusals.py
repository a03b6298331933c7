"""Why somebody does not get what they asked of a rollout."""


class Refused(Exception):
    """What was asked cannot be done, or makes no sense here; the message is for the person who asked."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotThere(Refused):
    """What was named does not exist."""
