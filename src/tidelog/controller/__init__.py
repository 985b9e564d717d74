"""What the controller decides: pure functions from an image and a request to records and an
answer. Nothing here changes state; that is `metadata.delta`'s."""
