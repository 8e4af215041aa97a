"""Many runs and what to make of them: studies, the runner that does their runs once, and what is kept of them."""
