"""The cluster's metadata: records of its log, the image that they make, and the only replay."""
