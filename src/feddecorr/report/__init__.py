"""Reports: HTML pages that open with no network."""

from feddecorr.report.runs_page import write_report

__all__ = ["write_report"]
