"""Records of many runs: read, grouped, paired, and put into tables."""
