"""What is done to runs and readers on purpose: kills, limits, broken input, long lives, bare environments."""
