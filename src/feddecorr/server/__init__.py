"""The server: the roster of clients, the rounds, the validation of updates and privacy accounting."""
