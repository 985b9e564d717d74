"""Spark reads and writes topics: format "tidelog" beside Spark's own Kafka connector."""
