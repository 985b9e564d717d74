"""Builds the one compiled module. It is optional: without a C compiler the pure twin serves."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "tidelog.wire._records",
            ["src/tidelog/wire/_records.pyx"],
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
