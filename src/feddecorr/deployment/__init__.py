"""Federations deployed on Flower: the server's side of one, and the Flower app that starts it."""
