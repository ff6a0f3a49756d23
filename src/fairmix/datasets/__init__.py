"""Data sets of the fair-clustering literature, toy data, and the paper's preprocessing.

Adult comes with the package. Bank and Credit are read from the folder that the environment
variable ``FAIRMIX_DATA`` names, and else downloaded from UCI (extra ``data``).
"""

from fairmix.datasets._adult import load_adult
from fairmix.datasets._bank import fetch_bank
from fairmix.datasets._credit import fetch_credit
from fairmix.datasets._dataset import Dataset
from fairmix.datasets._preprocessing import paper_preprocessing
from fairmix.datasets._toy import make_grouped_blobs

__all__ = [
    "Dataset",
    "fetch_bank",
    "fetch_credit",
    "load_adult",
    "make_grouped_blobs",
    "paper_preprocessing",
]
