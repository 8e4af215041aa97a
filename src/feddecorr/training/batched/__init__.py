"""Many clients trained at once in one process."""
