"""Builds the one compiled module. It is optional: without a C compiler the pure twin serves."""

import os

from setuptools import Extension, setup

# TIDELOG_SANITIZE=address builds what tests/unit/wire/test_records_sanitized.py runs.
sanitizer = os.environ.get("TIDELOG_SANITIZE")
sanitize = [f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", "-g"] if sanitizer else []

setup(
    ext_modules=[
        Extension(
            "tidelog.wire._records",
            ["src/tidelog/wire/_records.pyx"],
            depends=[
                "src/tidelog/wire/_crc32c.h",
                "src/tidelog/wire/_records_accept.pxi",
                "src/tidelog/wire/_records_assign.pxi",
                "src/tidelog/wire/_records_batches.pxi",
                "src/tidelog/wire/_records_columns.pxi",
                "src/tidelog/wire/_records_decode.pxi",
                "src/tidelog/wire/_records_encode.pxi",
                "src/tidelog/wire/_records_parse.pxi",
                "src/tidelog/wire/_records_produce.pxi",
                "src/tidelog/wire/_records_runs.pxi",
                "src/tidelog/wire/_records_validate.pxi",
            ],
            extra_compile_args=["-O3", *sanitize],
            extra_link_args=sanitize,
            optional=True,
        )
    ]
)
