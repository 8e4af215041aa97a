"""The files that data sets come in."""
