"""What a controller does with requests: its listener's, and those that brokers hand on."""
