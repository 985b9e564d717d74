"""Spark reads and writes the log: `spark.read.format("tidelog")`, found through `pyspark_tidelog`.

Options, columns and semantics are those of Spark's own Kafka connector; no jar is needed, and any
Kafka broker will do. Needs the extra `tidelog[spark]`.
"""
