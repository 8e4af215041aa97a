"""Many runs: planned, carried out side by side, compared and drawn."""
