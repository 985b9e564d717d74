"""Configuration under Kafka's names: what keys there are, what they may hold, what they mean."""
