"""An experiment and how it is run, from overrides, TOML or Python: two frozen, validated values."""
