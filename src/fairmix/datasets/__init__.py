"""Data sets of the fair-clustering literature, toy data, and the paper's preprocessing.

Adult comes with the package. Bank, Census and Credit are read from the folder that the environment
variable ``FAIRMIX_DATA`` names, and else downloaded from UCI (extra ``data``). Census-like data is
synthetic: it is drawn from statistics that come with the package.
"""

from fairmix.datasets._adult import load_adult
from fairmix.datasets._bank import fetch_bank
from fairmix.datasets._census import CensusData, fetch_census
from fairmix.datasets._census_like import make_census_like, write_census_like
from fairmix.datasets._credit import fetch_credit
from fairmix.datasets._dataset import Dataset
from fairmix.datasets._preprocessing import paper_preprocessing
from fairmix.datasets._toy import make_grouped_blobs

__all__ = [
    "CensusData",
    "Dataset",
    "fetch_bank",
    "fetch_census",
    "fetch_credit",
    "load_adult",
    "make_census_like",
    "make_grouped_blobs",
    "paper_preprocessing",
    "write_census_like",
]
