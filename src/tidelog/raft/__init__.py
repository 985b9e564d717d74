"""The quorum that keeps the metadata log."""
