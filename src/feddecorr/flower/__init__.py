"""Flower: simulation and deployment. Nothing is imported here, since Flower is an optional extra."""
