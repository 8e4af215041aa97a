"""What the theory takes of scipy."""

from scipy.integrate import solve_ivp
from scipy.linalg import polar
from scipy.optimize import linear_sum_assignment

__all__ = ["linear_sum_assignment", "polar", "solve_ivp"]
