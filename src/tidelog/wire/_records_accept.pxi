# accept_batch: the usual produced batch, checked in one go.

cdef enum:
    HEADER_SIZE = 61
    LENGTH_END = 12
    CRC_START = 21
    # The codec, a control batch, a delete horizon: whatever has one of these is looked at closely.
    UNUSUAL_ATTRIBUTES = 0x07 | 0x20 | 0x40


cdef inline uint64_t big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int n
    for n in range(size):
        value = value << 8 | at[n]
    return value


cdef bint is_acceptable(
    const uint8_t* at, int64_t size, int64_t size_max, Validation* check
) noexcept nogil:
    cdef int64_t attributes, producer_id
    if size < HEADER_SIZE or size > size_max or at[16] != 2 or big_endian(at, 8) != 0:
        return False
    if <int32_t>big_endian(at + 8, 4) != size - LENGTH_END:
        return False
    attributes = <int16_t>big_endian(at + 21, 2)
    producer_id = <int64_t>big_endian(at + 43, 8)
    check.count = <int32_t>big_endian(at + 57, 4)
    if attributes & UNUSUAL_ATTRIBUTES or check.count <= 0:
        return False
    if <int32_t>big_endian(at + 23, 4) != check.count - 1:
        return False
    if producer_id >= 0 and <int32_t>big_endian(at + 53, 4) < 0:
        return False
    if crc32c_extend(0, at + CRC_START, size - CRC_START) != big_endian(at + 17, 4):
        return False
    check.base_timestamp = <int64_t>big_endian(at + 27, 8)
    return validate(at + HEADER_SIZE, at + size, check) == NONE and check.bad_count == 0


def accept_batch(
    data, int64_t size_max, int64_t timestamp_min, int64_t timestamp_max, bint key_required, /
):
    cdef Py_buffer view
    cdef Validation check
    cdef const uint8_t* at
    cdef bint accepted
    check.timestamp_min = timestamp_min
    check.timestamp_max = timestamp_max
    check.key_required = key_required
    check.max_timestamp = check.max_timestamp_offset_delta = -1
    check.bad_count = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    at = <const uint8_t*>view.buf
    if view.len < NOGIL_BYTES_MIN:
        accepted = is_acceptable(at, view.len, size_max, &check)
    else:
        with nogil:
            accepted = is_acceptable(at, view.len, size_max, &check)
    PyBuffer_Release(&view)
    return (check.max_timestamp, check.max_timestamp_offset_delta) if accepted else None
