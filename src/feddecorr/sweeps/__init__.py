"""Sweeps and studies: many runs, planned and done in parallel."""
