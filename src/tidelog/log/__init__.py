"""The log on disk: Apache Kafka's files, byte for byte."""
