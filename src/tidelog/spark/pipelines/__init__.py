"""Data pipelines on Spark, as `tidelog pipeline` runs them."""
