"""Values of the records in `__cluster_metadata`; definitions and field names are Kafka's."""
