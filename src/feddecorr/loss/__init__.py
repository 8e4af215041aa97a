"""The losses against collapse, as functions and as a module; they need PyTorch alone."""
