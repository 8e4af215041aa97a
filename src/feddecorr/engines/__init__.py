"""Execution backends. Nothing is imported here: worker processes start while PyTorch is still being imported."""
