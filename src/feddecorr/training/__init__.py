"""Local training: the client, its batches, its loop over steps, its optimizer."""
