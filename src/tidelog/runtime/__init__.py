"""What every role of a node uses in a step: timers, long polls, long work, peers."""
