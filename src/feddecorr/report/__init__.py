"""Reports: HTML pages that open with no network."""

from feddecorr.report.runs import write_report

__all__ = ["write_report"]
