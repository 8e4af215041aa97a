"""An experiment from overrides, TOML or Python: one frozen, validated value."""
