"""One replica of a partition: its log, its leadership, its high watermark."""
