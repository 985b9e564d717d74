# What the headers of batches say, one batch after the other.


cdef struct BatchHead:
    int64_t size, base_offset, next_offset, attributes, base_timestamp, max_timestamp, count


cdef bint read_head(
    const uint8_t* at, int64_t size, int64_t next_offset, BatchHead* head
) noexcept nogil:
    # Whether a whole batch of magic 2 lies there, whose offsets rise.
    cdef int64_t length, last_offset_delta
    if size < HEADER_SIZE or at[16] != 2:
        return False
    length = <int32_t>big_endian(at + 8, 4)
    if length < HEADER_SIZE - LENGTH_END or length > size - LENGTH_END:
        return False
    head.size = length + LENGTH_END
    head.base_offset = <int64_t>big_endian(at, 8)
    last_offset_delta = <int32_t>big_endian(at + 23, 4)
    if head.base_offset < next_offset or last_offset_delta < 0:
        return False
    if head.base_offset > INT64_MAX - last_offset_delta - 1:
        return False
    head.next_offset = head.base_offset + last_offset_delta + 1
    head.attributes = <int16_t>big_endian(at + 21, 2)
    head.base_timestamp = <int64_t>big_endian(at + 27, 8)
    head.max_timestamp = <int64_t>big_endian(at + 35, 8)
    head.count = <int32_t>big_endian(at + 57, 4)
    return True


cdef inline bint crc_is_right(const uint8_t* at, int64_t size) noexcept nogil:
    return crc32c_extend(0, at + CRC_START, size - CRC_START) == big_endian(at + 17, 4)


# Hoisted: written out, each call would look up the method again.
cdef object new_tuple = tuple.__new__


cdef object batch_at(kind, batches, int64_t position, const uint8_t* at):
    # The header as a tuple of this kind; it has been checked.
    return new_tuple(kind, (
        batches,
        position,
        <int64_t>big_endian(at, 8),
        <int32_t>big_endian(at + 8, 4),
        <int32_t>big_endian(at + 12, 4),
        2,
        <uint32_t>big_endian(at + 17, 4),
        <int16_t>big_endian(at + 21, 2),
        <int32_t>big_endian(at + 23, 4),
        <int64_t>big_endian(at + 27, 8),
        <int64_t>big_endian(at + 35, 8),
        <int64_t>big_endian(at + 43, 8),
        <int16_t>big_endian(at + 51, 2),
        <int32_t>big_endian(at + 53, 4),
        <int32_t>big_endian(at + 57, 4),
    ))


def skip_batches(
    batches, int64_t position, int64_t next_offset, int attributes, bint check_crc, /
):
    cdef Py_buffer view
    cdef BatchHead head
    cdef const uint8_t* at
    PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE)
    while 0 <= position < view.len:
        at = <const uint8_t*>view.buf + position
        if not read_head(at, view.len - position, next_offset, &head):
            break
        if head.attributes & attributes or (check_crc and not crc_is_right(at, head.size)):
            break
        position += head.size
        next_offset = head.next_offset
    PyBuffer_Release(&view)
    return position, next_offset


def read_batches(
    kind, batches, int64_t position, int64_t next_offset, bint check_crc, Py_ssize_t count_max, /
):
    cdef Py_buffer view
    cdef BatchHead head
    cdef const uint8_t* at
    cdef list found = []
    PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE)
    try:
        while 0 <= position < view.len and len(found) < count_max:
            at = <const uint8_t*>view.buf + position
            if not read_head(at, view.len - position, next_offset, &head):
                break
            if check_crc and not crc_is_right(at, head.size):
                break
            found.append(batch_at(kind, batches, position, at))
            position += head.size
            next_offset = head.next_offset
    finally:
        PyBuffer_Release(&view)
    return found
