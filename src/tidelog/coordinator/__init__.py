"""Coordinators: what they keep of groups and transactions."""
