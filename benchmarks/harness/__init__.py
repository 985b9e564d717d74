"""What the benchmarks of brokers share: load, nodes under measurement, comparison."""
