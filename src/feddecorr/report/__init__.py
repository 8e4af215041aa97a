"""Reports: HTML pages that open with no network, and figures for print."""
