# ColumnDecoder. Room for all that a batch can still give is made before its loop, so that the
# loop allocates nothing and can run without the interpreter's lock. What it can give is bounded
# by the bytes at hand: a record takes RECORD_BYTES_MIN, a header HEADER_BYTES_MIN.

cdef enum:
    WANT_OFFSET = 1  # records_types.Column
    WANT_TIMESTAMP = 2
    WANT_KEY = 4
    WANT_VALUE = 8
    WANT_HEADERS = 16
    HEADER_COST = 8  # records_twin_columns.HEADER_COST
    APPEND_TIME = 8  # an attribute: max_timestamp is the time of every record
    FULL = -1  # no flaw: the decoder has no room for the next row


cdef class ColumnDecoder:
    cdef int wanted
    cdef int64_t rows_max, bytes_max
    # the batch at hand
    cdef Py_buffer view
    cdef bint fed
    cdef bint running  # without the lock: another thread must not move the memory meanwhile
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int64_t index, count
    cdef int64_t base_offset, base_timestamp, append_timestamp, start_offset, end_offset
    cdef bint appended
    # the columns so far
    cdef int64_t row_count, byte_count
    cdef Growing offsets, timestamps, header_offsets
    cdef BinaryGrowing keys, values, header_keys, header_values

    def __cinit__(self, int wanted, int64_t rows_max, int64_t bytes_max, /):
        assert rows_max > 0
        assert 0 < bytes_max <= COLUMN_BYTES_MAX
        self.wanted = wanted
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.offsets = Growing()
        self.timestamps = Growing()
        self.header_offsets = Growing()
        self.keys = BinaryGrowing()
        self.values = BinaryGrowing()
        self.header_keys = BinaryGrowing()
        self.header_values = BinaryGrowing()

    def __dealloc__(self):
        self.forget()

    @property
    def rows(self):
        return self.row_count

    def feed(
        self,
        records,
        int64_t count,
        int64_t base_offset,
        int64_t base_timestamp,
        append_timestamp,
        int64_t start_offset,
        int64_t end_offset,
    ):
        cdef int64_t fixed = 0 if append_timestamp is None else append_timestamp
        assert not self.running, "a decoder belongs to one thread at a time"
        assert self.index == self.count, "the batch before is not decoded to its end"
        self.forget()
        PyObject_GetBuffer(records, &self.view, PyBUF_SIMPLE)
        self.fed = True
        self.at = <const uint8_t*>self.view.buf
        self.end = self.at + self.view.len
        self.count = max(count, 0)
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.appended = append_timestamp is not None
        self.append_timestamp = fixed
        self.start_offset = start_offset
        self.end_offset = end_offset

    cdef void forget(self) noexcept:
        if self.fed:
            PyBuffer_Release(&self.view)
        self.fed = False
        self.at = self.end = NULL
        self.index = self.count = 0

    def fill(self):
        cdef int outcome
        cdef int64_t index, position
        assert not self.running, "a decoder belongs to one thread at a time"
        if not self.fed:
            return True
        self.reserve()
        if self.end - self.at < NOGIL_BYTES_MIN:
            outcome = self.run()
        else:
            self.running = True
            with nogil:
                outcome = self.run()
            self.running = False
        if outcome == FULL:
            return False
        index = self.index
        position = self.at - <const uint8_t*>self.view.buf
        self.forget()
        if outcome != NONE:
            raise CorruptRecords(outcome, index, position)
        return True

    def feed_plain(
        self,
        batches,
        int64_t position,
        int64_t next_offset,
        int64_t start_offset,
        int64_t end_offset,
        int attributes,
        bint check_crc,
    ):
        # The lock is held: some megabytes take a millisecond, and nobody changes them meanwhile.
        cdef BatchHead head
        cdef const uint8_t* at
        assert not self.running, "a decoder belongs to one thread at a time"
        assert self.index == self.count, "the batch before is not decoded to its end"
        self.forget()
        PyObject_GetBuffer(batches, &self.view, PyBUF_SIMPLE)
        self.fed = True
        self.start_offset = start_offset
        self.end_offset = end_offset
        try:
            while 0 <= position < self.view.len:
                at = <const uint8_t*>self.view.buf + position
                if not read_head(at, self.view.len - position, next_offset, &head):
                    break
                if head.attributes != attributes or head.base_offset >= end_offset:
                    break
                if check_crc and not crc_is_right(at, head.size):
                    break
                if head.next_offset > start_offset and not self.decode_plain(at, &head):
                    break
                position += head.size
                next_offset = head.next_offset
        finally:
            self.forget()
        return position, next_offset

    cdef bint decode_plain(self, const uint8_t* at, BatchHead* head) except -1:
        """All records of a batch or, where it is flawed or needs more room, none."""
        cdef int64_t row_count = self.row_count
        cdef int64_t byte_count = self.byte_count
        cdef Binary keys = self.keys.at
        cdef Binary values = self.values.at
        cdef Binary header_keys = self.header_keys.at
        cdef Binary header_values = self.header_values.at
        if head.count > self.rows_max - row_count or head.size > self.bytes_max - byte_count:
            return False
        self.at = at + HEADER_SIZE
        self.end = at + head.size
        self.index = 0
        self.count = max(head.count, 0)
        self.base_offset = head.base_offset
        self.base_timestamp = head.base_timestamp
        self.appended = head.attributes & APPEND_TIME
        self.append_timestamp = head.max_timestamp
        self.reserve()
        if self.run() == NONE:
            return True
        self.index = self.count = 0
        self.row_count = row_count
        self.byte_count = byte_count
        self.keys.cut(&keys)
        self.values.cut(&values)
        self.header_keys.cut(&header_keys)
        self.header_values.cut(&header_values)
        return False

    cdef int reserve(self) except -1:
        cdef int64_t left = self.end - self.at
        cdef int64_t rows = min(
            self.count - self.index, left // RECORD_BYTES_MIN, self.rows_max - self.row_count
        )
        cdef int64_t headers = left // HEADER_BYTES_MIN
        if self.wanted & WANT_OFFSET:
            self.offsets.reserve((self.row_count + rows) * 8)
        if self.wanted & WANT_TIMESTAMP:
            self.timestamps.reserve((self.row_count + rows) * 8)
        if self.wanted & WANT_KEY:
            self.keys.reserve(rows, left)
        if self.wanted & WANT_VALUE:
            self.values.reserve(rows, left)
        if self.wanted & WANT_HEADERS:
            self.header_offsets.reserve((self.row_count + rows + 1) * 4)
            self.header_keys.reserve(headers, left)
            self.header_values.reserve(headers, left)
        return 0

    cdef int run(self) noexcept nogil:
        cdef Record record
        cdef int64_t offset
        cdef int flaw
        while self.index < self.count:
            flaw = parse_record(self.at, self.end, &record)
            if flaw != NONE:
                return flaw
            offset = add_wrapping(self.base_offset, record.offset_delta)
            if self.start_offset <= offset < self.end_offset and not self.append(offset, &record):
                return FULL
            self.at = record.end
            self.index += 1
        return NONE if self.at == self.end else TRAILING_BYTES

    cdef inline bint append(self, int64_t offset, Record* record) noexcept nogil:
        cdef int64_t row = self.row_count
        cdef int64_t size = 0
        if self.wanted & WANT_KEY:
            size += record.key.size
        if self.wanted & WANT_VALUE:
            size += record.value.size
        if self.wanted & WANT_HEADERS and record.header_count:
            size += header_bytes(record)
        if row == self.rows_max or (row and self.byte_count + size > self.bytes_max):
            return False
        self.byte_count += size
        self.row_count += 1
        if self.wanted & WANT_OFFSET:
            (<int64_t*>self.offsets.start)[row] = offset
        if self.wanted & WANT_TIMESTAMP:
            (<int64_t*>self.timestamps.start)[row] = (
                self.append_timestamp if self.appended
                else add_wrapping(self.base_timestamp, record.timestamp_delta)
            )
        if self.wanted & WANT_KEY:
            append_field(&self.keys.at, record.key)
        if self.wanted & WANT_VALUE:
            append_field(&self.values.at, record.value)
        if self.wanted & WANT_HEADERS:
            self.append_headers(record)
            (<int32_t*>self.header_offsets.start)[row + 1] = <int32_t>self.header_keys.at.rows
        return True

    cdef void append_headers(self, Record* record) noexcept nogil:
        cdef const uint8_t* at = record.first_header
        cdef Field key, value
        cdef int64_t n
        for n in range(record.header_count):
            # Parsed once already, and checked again: the buffer may belong to another thread.
            if read_header(&at, record.end, &key, &value) != NONE:
                return
            append_field(&self.header_keys.at, key)
            append_field(&self.header_values.at, value)

    def take(self):
        assert not self.running, "a decoder belongs to one thread at a time"
        cdef int64_t rows = self.row_count
        cdef int wanted = self.wanted
        offsets = timestamps = keys = values = headers = None
        if wanted & WANT_OFFSET:
            offsets = self.offsets.take(rows * 8)
        if wanted & WANT_TIMESTAMP:
            timestamps = self.timestamps.take(rows * 8)
        if wanted & WANT_KEY:
            keys = self.keys.take()
        if wanted & WANT_VALUE:
            values = self.values.take()
        if wanted & WANT_HEADERS:
            self.header_offsets.reserve(4)
            (<int32_t*>self.header_offsets.start)[0] = 0
            headers = HeadersColumn(
                self.header_offsets.take((rows + 1) * 4),
                self.header_keys.at.rows,
                self.header_keys.take(),
                self.header_values.take(),
            )
        self.row_count = self.byte_count = 0
        return Columns(rows, offsets, timestamps, keys, values, headers)


cdef int64_t header_bytes(Record* record) noexcept nogil:
    cdef const uint8_t* at = record.first_header
    cdef Field key, value
    cdef int64_t n
    cdef int64_t size = 0
    for n in range(record.header_count):
        if read_header(&at, record.end, &key, &value) != NONE:
            break
        size += HEADER_COST + key.size + value.size
    return size
