"""The paper: its studies, claims, printed values and theory. It uses all of the package, and nothing uses it."""
