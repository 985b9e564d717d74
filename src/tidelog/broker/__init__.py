"""What a broker does with requests."""
