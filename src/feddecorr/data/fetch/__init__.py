"""Where public data sets come from."""
