"""Federations on Flower: its messages carry our bytes, its nodes run our client. It is imported nowhere else."""
