# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The slow loops, compiled: see records_types.RecordsModule for what each function does.

What is parsed here was sent by strangers. Every read is checked against the end of its record
or block; a length is compared with the room that is left, never added to a position first;
sums are made in unsigned 64 bits, where they wrap as Java's do. The twin refuses the same
input for the same reason, and the tests hold the two together.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tidelog.wire.records_batches_types import BatchRun, IndexEntry, RunState
from tidelog.wire.records_types import (
    COLUMN_BYTES_MAX,
    RECORD_ERRORS_MAX,
    AssignedRows,
    BadRecord,
    BinaryColumn,
    Columns,
    CorruptRecords,
    EncodedRecords,
    HeadersColumn,
    RecordsCheck,
    RecordSpan,
    RowGroup,
)

cdef extern from "_crc32c.h" nogil:
    uint32_t crc32c_extend(uint32_t value, const uint8_t* data, size_t size) noexcept
    uint32_t crc32c_portable(uint32_t value, const uint8_t* data, size_t size) noexcept
    void crc32c_choose()

crc32c_choose()

# Below this a block is done sooner than the interpreter's lock has changed hands.
cdef enum:
    NOGIL_BYTES_MIN = 1 << 17


def crc32c(data, uint32_t value=0, /):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < NOGIL_BYTES_MIN:
        value = crc32c_extend(value, <const uint8_t*>view.buf, view.len)
    else:
        with nogil:
            value = crc32c_extend(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def crc32c_without_hardware(data, uint32_t value=0, /):
    """The fallback of CPUs without the instruction, so that it can be tested on those with."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    value = crc32c_portable(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


include "_records_parse.pxi"
include "_records_validate.pxi"
include "_records_accept.pxi"
include "_records_produce.pxi"
include "_records_columns.pxi"
include "_records_batches.pxi"
include "_records_runs.pxi"
include "_records_decode.pxi"
include "_records_encode.pxi"
include "_records_assign.pxi"
