"""What spark-submit is given: it takes a file of Python, and `tidelog` is a command.

spark-submit --master ... "$(tidelog pipeline submit-file)" archive --topic orders --to ...
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Spark puts this file's directory first; modules here would hide others of the same name.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    from tidelog.cli.pipeline import command

    command(prog_name="tidelog pipeline")
