"""The controller role of a node: decides (`controller/`), has it committed, answers."""
