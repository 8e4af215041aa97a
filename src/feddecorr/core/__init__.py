"""Values that every room shares: states, messages, bytes, randomness, and files that are read with care."""
