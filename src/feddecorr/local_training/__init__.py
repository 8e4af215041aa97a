"""What a client's local training is made of: its batches, its network alone or beside others, the loop over steps."""
