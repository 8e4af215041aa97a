"""The one place where scipy is imported, which only the theory needs."""

from __future__ import annotations

from feddecorr.errors import UserError

try:
    from scipy.integrate import DOP853
    from scipy.linalg import polar
    from scipy.optimize import linear_sum_assignment
except ImportError as error:
    raise UserError("the theory needs scipy: pip install 'feddecorr[theory]'") from error

__all__ = ["DOP853", "linear_sum_assignment", "polar"]
