"""The shell that gives a node real sockets and files."""
