"""The studies behind `feddecorr theory`: settings in, a document, a table and pictures out."""
