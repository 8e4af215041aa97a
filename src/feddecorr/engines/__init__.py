"""Who runs the clients. Nothing is imported here: worker processes are started while PyTorch is being imported."""
