"""An experiment and how it is run, in one flat form of settings."""
