"""What a release takes: the package, built and tried as a stranger would."""
