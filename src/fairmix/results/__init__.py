"""What is measured of clusters: verdicts, certificates, fairness tables, profiles."""

from fairmix.results.certificate import Certificate, ChanceGap, certify, chance_gap, sampling_gap
from fairmix.results.fairness import (
    AttributeTables,
    ClusterRow,
    FairnessTable,
    Figure,
    GroupRow,
    fairness_table,
)
from fairmix.results.profile import Categories, Numbers, Profile, share_interval
from fairmix.results.verdict import Verdict, judge, judge_counts, label_resolution, verdict_of

__all__ = [
    "AttributeTables",
    "Categories",
    "Certificate",
    "ChanceGap",
    "ClusterRow",
    "FairnessTable",
    "Figure",
    "GroupRow",
    "Numbers",
    "Profile",
    "Verdict",
    "certify",
    "chance_gap",
    "fairness_table",
    "judge",
    "judge_counts",
    "label_resolution",
    "sampling_gap",
    "share_interval",
    "verdict_of",
]
