"""Error codes against an independent list: kio's, which is made from Apache's."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from tidelog.errors import ErrorCode

KIO_CODES = {code.value: code for code in KioErrorCode}


def test_every_code_is_there():
    assert sorted(ErrorCode) == sorted(KIO_CODES)


@pytest.mark.parametrize("code", sorted(ErrorCode))
def test_name_and_retriability_are_kafkas(code):
    other = KIO_CODES[code]
    assert ErrorCode(code).name.lower() == other.name
    assert ErrorCode(code).is_retriable == other.retriable
