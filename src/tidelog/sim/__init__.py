"""The simulated world: what a node runs in when every run must be repeatable."""
