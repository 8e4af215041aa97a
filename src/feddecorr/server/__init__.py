"""The server: who takes part, the rounds, and the validation of what clients send."""
