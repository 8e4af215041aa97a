"""The local objective: named terms over one forward pass, regularizers, and reference models for terms."""
