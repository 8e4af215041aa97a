"""Pure measures of representations: spectra, ranks, neural collapse, likeness."""
