"""How Spark finds the format "tidelog": it imports every installed `pyspark_*` module and takes
its DefaultSource. So this one is named for Spark, and imports little."""

from tidelog.spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
