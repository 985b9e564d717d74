# One record. Pointers: `at` is where to read, `end` the first byte that must not be read.

cdef enum Flaw:  # records_types.Flaw
    NONE = 0
    TRUNCATED = 1
    OVERRUN = 2
    BAD_VARINT = 3
    BAD_LENGTH = 4
    BAD_HEADER_COUNT = 5
    NULL_HEADER_KEY = 6
    TRAILING_IN_RECORD = 7
    TOO_FEW_RECORDS = 8
    TRAILING_BYTES = 9
    OFFSET_DELTA = 10

cdef enum:
    RECORD_BYTES_MIN = 7
    HEADER_BYTES_MIN = 2

cdef struct Field:
    const uint8_t* start  # NULL: null
    int64_t size

cdef struct Record:
    int64_t timestamp_delta
    int64_t offset_delta
    Field key
    Field value
    int64_t header_count
    const uint8_t* tail  # after the timestamp delta
    const uint8_t* headers  # at the header count
    const uint8_t* first_header
    const uint8_t* end


cdef inline int64_t add_wrapping(int64_t a, int64_t b) noexcept nogil:
    # Signed overflow is undefined in C, unsigned is not.
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef int read_long_varint(
    const uint8_t** cursor, const uint8_t* end, int bits, int64_t* out
) noexcept nogil:
    cdef const uint8_t* at = cursor[0]
    cdef uint64_t value = 0
    cdef uint64_t byte
    cdef int shift = 0
    while shift < bits:
        if at >= end:
            return OVERRUN
        byte = at[0]
        at += 1
        # The last byte has room for what is left of the type's width, no more.
        if shift + 7 > bits and (byte & 0x7F) >> (bits - shift) != 0 and byte < 0x80:
            return BAD_VARINT
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
            cursor[0] = at
            return NONE
        shift += 7
    return BAD_VARINT


cdef inline int read_varint(
    const uint8_t** cursor, const uint8_t* end, int64_t* out
) noexcept nogil:
    cdef const uint8_t* at = cursor[0]
    cdef uint32_t first, second
    if end - at >= 2:  # the lengths of ordinary records take one or two bytes
        first = at[0]
        if first < 0x80:
            out[0] = <int64_t>(first >> 1) ^ -<int64_t>(first & 1)
            cursor[0] = at + 1
            return NONE
        second = at[1]
        if second < 0x80:
            first = (first & 0x7F) | second << 7
            out[0] = <int64_t>(first >> 1) ^ -<int64_t>(first & 1)
            cursor[0] = at + 2
            return NONE
    return read_long_varint(cursor, end, 32, out)


cdef inline int read_varlong(
    const uint8_t** cursor, const uint8_t* end, int64_t* out
) noexcept nogil:
    cdef const uint8_t* at = cursor[0]
    cdef uint32_t first
    if at < end:
        first = at[0]
        if first < 0x80:
            out[0] = <int64_t>(first >> 1) ^ -<int64_t>(first & 1)
            cursor[0] = at + 1
            return NONE
    return read_long_varint(cursor, end, 64, out)


cdef inline int read_nullable(
    const uint8_t** cursor, const uint8_t* end, Field* field
) noexcept nogil:
    cdef int flaw = read_varint(cursor, end, &field.size)
    if flaw != NONE:
        return flaw
    if field.size < 0:
        field.start = NULL
        if field.size != -1:
            return BAD_LENGTH
        field.size = 0
        return NONE
    if field.size > end - cursor[0]:
        return OVERRUN
    field.start = cursor[0]
    cursor[0] += field.size
    return NONE


cdef inline int read_header(
    const uint8_t** cursor, const uint8_t* end, Field* key, Field* value
) noexcept nogil:
    cdef int flaw = read_nullable(cursor, end, key)
    if flaw == BAD_LENGTH or (flaw == NONE and key.start == NULL):
        return NULL_HEADER_KEY
    if flaw != NONE:
        return flaw
    return read_nullable(cursor, end, value)


cdef int skip_headers(
    const uint8_t** cursor, const uint8_t* end, int64_t count
) noexcept nogil:
    cdef Field key, value
    cdef int flaw
    # A header takes two bytes or more, so a false count soon runs into the record's end.
    while count > 0:
        flaw = read_header(cursor, end, &key, &value)
        if flaw != NONE:
            return flaw
        count -= 1
    return NONE


cdef inline int parse_record(
    const uint8_t* at, const uint8_t* end, Record* record
) noexcept nogil:
    cdef int64_t length
    cdef int flaw
    if at >= end:
        return TOO_FEW_RECORDS
    flaw = read_varint(&at, end, &length)
    if flaw != NONE:
        return TRUNCATED if flaw == OVERRUN else flaw
    if length < 0:
        return BAD_LENGTH
    if length > end - at:
        return TRUNCATED
    if length == 0:
        return OVERRUN
    end = at + length
    record.end = end
    at += 1  # attributes: no meaning yet
    flaw = read_varlong(&at, end, &record.timestamp_delta)
    if flaw != NONE:
        return flaw
    record.tail = at
    flaw = read_varint(&at, end, &record.offset_delta)
    if flaw != NONE:
        return flaw
    flaw = read_nullable(&at, end, &record.key)
    if flaw != NONE:
        return flaw
    flaw = read_nullable(&at, end, &record.value)
    if flaw != NONE:
        return flaw
    record.headers = at
    flaw = read_varint(&at, end, &record.header_count)
    if flaw != NONE:
        return flaw
    record.first_header = at
    if record.header_count != 0:
        if record.header_count < 0:
            return BAD_HEADER_COUNT
        flaw = skip_headers(&at, end, record.header_count)
        if flaw != NONE:
            return flaw
    return NONE if at == end else TRAILING_IN_RECORD
