"""Federated methods by name."""

from feddecorr.core.registry import Registry
from feddecorr.methods.adaptive import FedAdagrad, FedAdam, FedYogi
from feddecorr.methods.ccvr import CCVR
from feddecorr.methods.fedacg import FedACG
from feddecorr.methods.fedavg import FedAvg
from feddecorr.methods.fedavgm import FedAvgM
from feddecorr.methods.fedbabu import FedBABU
from feddecorr.methods.feddr import FedDr
from feddecorr.methods.feddyn import FedDyn
from feddecorr.methods.fedetf import FedETF
from feddecorr.methods.fedexp import FedExP
from feddecorr.methods.fedgela import FedGELA
from feddecorr.methods.fedlc import FedLC
from feddecorr.methods.fedlesam import FedLESAM
from feddecorr.methods.fedmr import FedMR
from feddecorr.methods.fedmuon import FedMuon
from feddecorr.methods.fednh import FedNH
from feddecorr.methods.fednova import FedNova
from feddecorr.methods.fedntd import FedNTD
from feddecorr.methods.fedprox import FedProx
from feddecorr.methods.fedrcl import FedRCL
from feddecorr.methods.fedrs import FedRS
from feddecorr.methods.fedsam import FedSAM
from feddecorr.methods.fedsol import FedSOL
from feddecorr.methods.feduv import FedUV
from feddecorr.methods.fedvls import FedVLS
from feddecorr.methods.method import Method, mean_weights
from feddecorr.methods.moon import MOON
from feddecorr.methods.scaffold import SCAFFOLD
from feddecorr.objective.terms import ClientContext, Trained

METHODS = Registry(
    "method",
    Method,
    {
        "fedavg": FedAvg,
        "fedprox": FedProx,
        "fedavgm": FedAvgM,
        "moon": MOON,
        "scaffold": SCAFFOLD,
        "fednova": FedNova,
        "fedadagrad": FedAdagrad,
        "fedadam": FedAdam,
        "fedyogi": FedYogi,
        "fedrs": FedRS,
        "fedlc": FedLC,
        "fedsam": FedSAM,
        "fedexp": FedExP,
        "feddyn": FedDyn,
        "fedntd": FedNTD,
        "feduv": FedUV,
        "fedacg": FedACG,
        "fedsol": FedSOL,
        "fedrcl": FedRCL,
        "feddr": FedDr,
        "fedbabu": FedBABU,
        "fedlesam": FedLESAM,
        "fedmuon": FedMuon,
        "fedetf": FedETF,
        "fedgela": FedGELA,
        "fedvls": FedVLS,
        "fedmr": FedMR,
        "fednh": FedNH,
        "ccvr": CCVR,
    },
)

__all__ = ["METHODS", "ClientContext", "FedAvg", "Method", "Trained", "mean_weights"]
