# encode_records. Two passes: the first checks every row and adds up sizes, the second writes
# into a buffer of exactly that size. The lock is held all along, since a change in between
# would be fatal; a call is short, as it makes no more than one batch.

cdef enum:
    RECORD_SIZE_MAX = 0x7FFFFFFF  # a length is an int32


cdef class RowReader:
    """A binary column of the caller's; without one every row is null."""
    cdef bint present
    cdef bint with_validity
    cdef Py_buffer offsets, data, validity
    cdef int held  # how many of the three are to be released
    cdef int64_t validity_start

    def __cinit__(self, column, int64_t rows):
        if column is None:
            return
        self.present = True
        self.validity_start = column.validity_start
        PyObject_GetBuffer(column.offsets, &self.offsets, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(column.data, &self.data, PyBUF_SIMPLE)
        self.held = 2
        want_size(&self.offsets, (rows + 1) * 4)
        if column.validity is None:
            return
        PyObject_GetBuffer(column.validity, &self.validity, PyBUF_SIMPLE)
        self.held = 3
        self.with_validity = True
        if self.validity_start < 0 or self.validity.len * 8 < self.validity_start + rows:
            raise ValueError("a validity bitmap has fewer bits than there are rows")

    def __dealloc__(self):
        if self.held > 2:
            PyBuffer_Release(&self.validity)
        if self.held > 1:
            PyBuffer_Release(&self.data)
        if self.held > 0:
            PyBuffer_Release(&self.offsets)

    cdef inline int read(self, int64_t row, Field* field) except -1:
        cdef int64_t start, end, bit
        field.start = NULL
        field.size = 0
        if not self.present:
            return 0
        if self.with_validity:
            bit = self.validity_start + row
            if not (<const uint8_t*>self.validity.buf)[bit >> 3] >> (bit & 7) & 1:
                return 0
        start = read_int32(&self.offsets, row)
        end = read_int32(&self.offsets, row + 1)
        if start < 0 or end < start or end > self.data.len:
            raise ValueError(f"row {row} lies outside of its column's data")
        field.start = <const uint8_t*>self.data.buf + start
        field.size = end - start
        return 0


cdef int want_size(Py_buffer* buffer, int64_t size) except -1:
    if buffer.len < size:
        raise ValueError(f"a column's buffer has {buffer.len} bytes, want {size}")
    return 0


cdef inline int64_t read_int32(Py_buffer* buffer, int64_t index) noexcept nogil:
    cdef int32_t value
    memcpy(&value, <const uint8_t*>buffer.buf + index * 4, 4)  # any alignment
    return value


cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while zigzag > 0x7F:
        at[0] = <uint8_t>(zigzag & 0x7F | 0x80)
        at += 1
        zigzag >>= 7
    at[0] = <uint8_t>zigzag
    return at + 1


cdef inline int64_t field_size(Field field) noexcept nogil:
    return 1 if field.start == NULL else varint_size(field.size) + field.size


cdef inline uint8_t* write_field(uint8_t* at, Field field) noexcept nogil:
    if field.start == NULL:
        at[0] = 1
        return at + 1
    at = write_varint(at, field.size)
    memcpy(at, field.start, field.size)
    return at + field.size


cdef class RowsEncoder:
    """Its places are rows, or where there is an order of rows, indexes of that."""
    cdef RowReader keys, values, header_keys, header_values
    cdef Py_buffer timestamps, header_offsets, order
    cdef bint with_timestamps, with_headers, with_order
    cdef int64_t rows, places, start, timestamp, base_timestamp, header_count

    def __cinit__(self, columns, int64_t start, int64_t timestamp, order):
        cdef int64_t rows = columns.rows
        self.rows = self.places = rows
        self.start = start
        self.timestamp = timestamp
        if order is not None:
            PyObject_GetBuffer(order, &self.order, PyBUF_SIMPLE)
            self.with_order = True
            self.places = self.order.len // 4
        self.keys = RowReader(columns.keys, rows)
        self.values = RowReader(columns.values, rows)
        if columns.timestamps is not None:
            PyObject_GetBuffer(columns.timestamps, &self.timestamps, PyBUF_SIMPLE)
            self.with_timestamps = True
            want_size(&self.timestamps, rows * 8)
        if columns.headers is not None:
            self.header_count = columns.headers.header_count
            if self.header_count < 0:
                raise ValueError("the headers' count is negative")
            self.header_keys = RowReader(columns.headers.keys, self.header_count)
            self.header_values = RowReader(columns.headers.values, self.header_count)
            PyObject_GetBuffer(columns.headers.offsets, &self.header_offsets, PyBUF_SIMPLE)
            self.with_headers = True
            want_size(&self.header_offsets, (rows + 1) * 4)
        assert 0 <= start < self.places
        self.base_timestamp = self.timestamp_of(self.row_at(start))

    def __dealloc__(self):
        if self.with_order:
            PyBuffer_Release(&self.order)
        if self.with_timestamps:
            PyBuffer_Release(&self.timestamps)
        if self.with_headers:
            PyBuffer_Release(&self.header_offsets)

    cdef inline int64_t row_at(self, int64_t place) except -1:
        cdef int64_t row = place
        if self.with_order:
            row = read_int32(&self.order, place)
            if row < 0 or row >= self.rows:
                raise ValueError(f"the order names row {row} of {self.rows}")
        return row

    cdef inline int64_t timestamp_of(self, int64_t row) noexcept nogil:
        cdef int64_t timestamp = self.timestamp
        if self.with_timestamps:
            memcpy(&timestamp, <const uint8_t*>self.timestamps.buf + row * 8, 8)
        return timestamp

    cdef inline int64_t timestamp_delta_of(self, int64_t row) noexcept nogil:
        return <int64_t>(<uint64_t>self.timestamp_of(row) - <uint64_t>self.base_timestamp)

    cdef int64_t body_size(self, int64_t place, int64_t row) except -1:
        cdef Field key, value
        cdef int64_t size, header, end
        self.keys.read(row, &key)
        self.values.read(row, &value)
        size = 1 + varint_size(self.timestamp_delta_of(row)) + varint_size(place - self.start)
        size += field_size(key) + field_size(value)
        if not self.with_headers:
            size += 1
        else:
            header = read_int32(&self.header_offsets, row)
            end = read_int32(&self.header_offsets, row + 1)
            if header < 0 or end < header or end > self.header_count:
                raise ValueError(f"row {row} has headers outside of their column")
            size += varint_size(end - header)
            while header < end:
                self.header_keys.read(header, &key)
                self.header_values.read(header, &value)
                if key.start == NULL:
                    raise ValueError(f"row {row} has a header without a key")
                size += field_size(key) + field_size(value)
                header += 1
        if size > RECORD_SIZE_MAX:
            raise ValueError("a record must be smaller than 2 GiB")
        return size

    cdef uint8_t* write(self, uint8_t* at, int64_t place) except NULL:
        cdef Field key, value
        cdef int64_t header, end
        cdef int64_t row = self.row_at(place)
        at = write_varint(at, self.body_size(place, row))
        at[0] = 0
        at = write_varint(at + 1, self.timestamp_delta_of(row))
        at = write_varint(at, place - self.start)
        self.keys.read(row, &key)
        self.values.read(row, &value)
        at = write_field(write_field(at, key), value)
        if not self.with_headers:
            at[0] = 0
            return at + 1
        header = read_int32(&self.header_offsets, row)
        end = read_int32(&self.header_offsets, row + 1)
        at = write_varint(at, end - header)
        while header < end:
            self.header_keys.read(header, &key)
            self.header_values.read(header, &value)
            at = write_field(write_field(at, key), value)
            header += 1
        return at


def encode_records(
    columns, int64_t start_row, int64_t bytes_max, int64_t timestamp, order=None, int64_t room=0, /
):
    assert room >= 0
    cdef RowsEncoder encoder = RowsEncoder(columns, start_row, timestamp, order)
    cdef int64_t place = start_row
    cdef int64_t total = 0
    cdef int64_t max_timestamp = encoder.base_timestamp
    cdef int64_t row, size
    while place < encoder.places:
        row = encoder.row_at(place)
        size = encoder.body_size(place, row)
        size += varint_size(size)
        if place > start_row and total + size > bytes_max:
            break
        total += size
        max_timestamp = max(max_timestamp, encoder.timestamp_of(row))
        place += 1
    cdef bytearray records = bytearray()
    PyByteArray_Resize(records, room + total)
    cdef uint8_t* start = <uint8_t*>PyByteArray_AS_STRING(records)
    cdef uint8_t* at = start + room
    memset(start, 0, room)
    cdef int64_t written
    for written in range(start_row, place):
        at = encoder.write(at, written)
    assert at - start == room + total
    return EncodedRecords(records, place, encoder.base_timestamp, max_timestamp)
