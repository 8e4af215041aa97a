"""What a person says: one frozen, validated experiment, from words, TOML or Python."""
