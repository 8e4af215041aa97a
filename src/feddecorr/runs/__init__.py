"""What is kept of runs, and how they are done, gone on with and done again."""
