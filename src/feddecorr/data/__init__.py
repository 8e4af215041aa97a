"""Data sets by name."""

from feddecorr.data.dataset import Data, Dataset, Images
from feddecorr.data.digits import Digits
from feddecorr.data.synthetic import Synthetic
from feddecorr.kinds import Family

DATA = Family("data set", Data, {"digits": Digits, "synthetic": Synthetic})

__all__ = ["DATA", "Data", "Dataset", "Digits", "Images", "Synthetic"]
