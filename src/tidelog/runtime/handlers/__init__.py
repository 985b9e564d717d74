"""What brokers and controllers answer alike."""
