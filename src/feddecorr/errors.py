"""The two ways in which a run ends early."""


class UserError(ValueError):
    """Something the user must change; the message says what would be right."""


class RunError(RuntimeError):
    """A run cannot go on; the message names the client, the round and the cause, where there are such."""
