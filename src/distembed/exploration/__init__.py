"""What is in a table of bags, without labels: sizes, a map, groups, odd bags, nearest bags, means of bags."""

from .between import BagDistances as BagDistances
from .between import NearestBags as NearestBags
from .between import distances_between, nearest_bags
from .duplicates import near_duplicates as near_duplicates
from .exploring import Exploration as Exploration
from .exploring import explore
from .groups import BagClusters
from .mean_bag import mean_bag
from .odd import OddBags

__all__ = ["BagClusters", "OddBags", "distances_between", "explore", "mean_bag", "nearest_bags"]
