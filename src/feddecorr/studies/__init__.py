"""Studies: declared lists of runs, what to make of them, and the claims that they answer."""
