# SingleProduce: a Produce request of one partition, which nearly all are, without the objects
# that the general decoder would build for it.

cdef enum:
    PRODUCE_VERSION_MIN = 3
    PRODUCE_FLEXIBLE = 9
    PRODUCE_TOPIC_ID = 13
    PRODUCE_VERSION_MAX = 13
    PRODUCE_START_OFFSET = 5
    PRODUCE_RECORD_ERRORS = 8
    # The time of the append, a transaction.
    GENERAL_ATTRIBUTES = 0x08 | 0x10
    CODEC_MASK = 0x07
    SINGLE_BYTES_MAX = 4 << 20
    STRING_BYTES_MAX = 32767
    # What an answer has beside the topic's name.
    ANSWER_BYTES = 80
    SMALL_ANSWER_BYTES_MAX = 256


cdef class SingleProduce:
    """A Produce request of one partition; see records_types.SingleProduce."""

    cdef readonly int version
    cdef readonly int correlation_id
    cdef readonly int acks
    cdef readonly int timeout_ms
    cdef readonly int index
    cdef readonly str topic
    cdef readonly bytes topic_id
    cdef readonly object frame
    cdef readonly object records
    cdef readonly int last_offset_delta
    cdef readonly int attributes
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int producer_epoch
    cdef readonly int base_sequence
    # Where the topic's name or id lies in the frame, with its length: it is answered as it came.
    cdef Py_ssize_t topic_start, topic_end

    def accept(
        self,
        int64_t size_max,
        int64_t now_ms,
        int64_t before_max_ms,
        int64_t after_max_ms,
        bint key_required,
        /,
    ):
        cdef Py_buffer view
        cdef Validation check
        cdef const uint8_t* at
        cdef bint accepted
        check.timestamp_min = now_ms - before_max_ms
        check.timestamp_max = now_ms + min(after_max_ms, INT64_MAX - now_ms)
        check.key_required = key_required
        check.max_timestamp = check.max_timestamp_offset_delta = -1
        check.bad_count = 0
        PyObject_GetBuffer(self.records, &view, PyBUF_SIMPLE)
        at = <const uint8_t*>view.buf
        if view.len < NOGIL_BYTES_MIN:
            accepted = is_acceptable(at, view.len, size_max, &check)
        else:
            with nogil:
                accepted = is_acceptable(at, view.len, size_max, &check)
        if accepted:
            self.attributes = <int16_t>big_endian(at + 21, 2)
            self.last_offset_delta = <int32_t>check.count - 1
            self.max_timestamp = check.max_timestamp
            self.producer_id = <int64_t>big_endian(at + 43, 8)
            self.producer_epoch = <int16_t>big_endian(at + 51, 2)
            self.base_sequence = <int32_t>big_endian(at + 53, 4)
            # A header that has to be written anew is for the general way.
            accepted = not self.attributes & GENERAL_ATTRIBUTES and (
                self.max_timestamp == <int64_t>big_endian(at + 35, 8)
            )
        PyBuffer_Release(&view)
        return accepted

    def answer(self, int64_t base_offset, int64_t append_time, int64_t log_start_offset, /):
        cdef uint8_t small[SMALL_ANSWER_BYTES_MAX]
        cdef uint8_t* at = small
        cdef Py_buffer view
        cdef bint flexible = self.version >= PRODUCE_FLEXIBLE
        cdef Py_ssize_t topic_size = self.topic_end - self.topic_start
        cdef bytes whole
        cdef uint8_t* start
        if topic_size + ANSWER_BYTES <= SMALL_ANSWER_BYTES_MAX:
            start = small
            whole = None
        else:
            whole = PyBytes_FromStringAndSize(NULL, topic_size + ANSWER_BYTES)
            start = <uint8_t*>PyBytes_AS_STRING(whole)
        at = put(start + 4, <uint32_t>self.correlation_id, 4)
        if flexible:
            at = put(at, 0, 1)
            at = put(at, 2, 1)
        else:
            at = put(at, 1, 4)
        PyObject_GetBuffer(self.frame, &view, PyBUF_SIMPLE)
        memcpy(at, <const uint8_t*>view.buf + self.topic_start, topic_size)
        PyBuffer_Release(&view)
        at += topic_size
        at = put(at, 2, 1) if flexible else put(at, 1, 4)
        at = put(at, <uint32_t>self.index, 4)
        at = put(at, 0, 2)
        at = put(at, <uint64_t>base_offset, 8)
        at = put(at, <uint64_t>append_time, 8)
        if self.version >= PRODUCE_START_OFFSET:
            at = put(at, <uint64_t>log_start_offset, 8)
        if flexible:
            # No record errors, no message, no tags of the partition, none of the topic.
            at = put(at, <uint64_t>1 << 24, 4)
        elif self.version >= PRODUCE_RECORD_ERRORS:
            at = put(at, 0, 4)
            at = put(at, 0xFFFF, 2)
        at = put(at, 0, 4)  # the throttle time
        if flexible:
            at = put(at, 0, 1)
        put(start, at - start - 4, 4)
        if whole is None:
            return PyBytes_FromStringAndSize(<char*>start, at - start)
        return whole[: at - start]


cdef inline uint8_t* put(uint8_t* at, uint64_t value, int size) noexcept nogil:
    cdef int n
    for n in range(size):
        at[n] = <uint8_t>(value >> 8 * (size - 1 - n))
    return at + size


cdef inline Py_ssize_t take_length(
    const uint8_t** at, const uint8_t* end, bint flexible, int size
) noexcept nogil:
    """A string's or an array's length, null as -1; -2 if it is not there."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    if not flexible:
        if end - at[0] < size:
            return -2
        value = big_endian(at[0], size)
        at[0] += size
        return <int16_t>value if size == 2 else <int32_t>value
    while at[0] < end and shift < 35:
        byte = at[0][0]
        at[0] += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return -2 if value > 0x7FFFFFFF else <Py_ssize_t>value - 1
        shift += 7
    return -2


cdef const uint8_t* parse_header(
    const uint8_t* start, const uint8_t* end, SingleProduce one
) noexcept:
    """Where the body begins, of a Produce whose header is as usual; else NULL."""
    cdef const uint8_t* at = start + 8
    cdef Py_ssize_t size
    cdef bint flexible
    if end - start < 10 or big_endian(start, 2) != 0:
        return NULL
    one.version = <int16_t>big_endian(start + 2, 2)
    if not PRODUCE_VERSION_MIN <= one.version <= PRODUCE_VERSION_MAX:
        return NULL
    flexible = one.version >= PRODUCE_FLEXIBLE
    one.correlation_id = <int32_t>big_endian(start + 4, 4)
    # The client id's length has two bytes in every version.
    size = take_length(&at, end, False, 2)
    if size < -1 or end - at < max(size, 0) + flexible:
        return NULL
    while size > 0:
        # Whether it is UTF-8 is for the general way to find out.
        if at[0] >= 0x80:
            return NULL
        at += 1
        size -= 1
    if flexible and at[0] != 0:
        return NULL
    return at + flexible


cdef bint parse_single(
    const uint8_t* start,
    const uint8_t* end,
    SingleProduce one,
    Py_ssize_t* name,
    Py_ssize_t* block,
) noexcept:
    """Whether the frame is one, all of its lengths being right."""
    cdef const uint8_t* at = parse_header(start, end, one)
    cdef Py_ssize_t size
    cdef bint flexible = one.version >= PRODUCE_FLEXIBLE
    if at == NULL:
        return False
    if take_length(&at, end, flexible, 2) != -1 or end - at < 6:
        return False  # transactional, or cut off
    one.acks = <int16_t>big_endian(at, 2)
    one.timeout_ms = <int32_t>big_endian(at + 2, 4)
    at += 6
    if take_length(&at, end, flexible, 4) != 1:
        return False
    one.topic_start = at - start
    if one.version >= PRODUCE_TOPIC_ID:
        if end - at < 16:
            return False
        name[0] = at - start
        at += 16
    else:
        size = take_length(&at, end, flexible, 2)
        if size < 0 or size > STRING_BYTES_MAX or end - at < size:
            return False
        name[0] = at - start
        at += size
    one.topic_end = at - start
    if take_length(&at, end, flexible, 4) != 1 or end - at < 4:
        return False
    one.index = <int32_t>big_endian(at, 4)
    at += 4
    size = take_length(&at, end, flexible, 4)
    if size < 0 or end - at < size:
        return False
    if size > SINGLE_BYTES_MAX or (size > HEADER_SIZE and at[22] & CODEC_MASK):
        return False  # work for a thread, perhaps
    block[0] = at - start
    block[1] = at - start + size
    at += size
    # The tags of the partition, the topic and the request.
    return not flexible or (end - at >= 3 and at[0] == 0 and at[1] == 0 and at[2] == 0)


def parse_produce(frame, /):
    cdef Py_buffer view
    cdef Py_ssize_t name = 0
    cdef Py_ssize_t block[2]
    cdef SingleProduce one = SingleProduce.__new__(SingleProduce)
    cdef const char* text
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        text = <const char*>view.buf
        if not parse_single(
            <const uint8_t*>text, <const uint8_t*>text + view.len, one, &name, block
        ):
            return None
        if one.version >= PRODUCE_TOPIC_ID:
            one.topic_id = PyBytes_FromStringAndSize(text + name, 16)
            one.topic = ""
        else:
            one.topic = PyUnicode_DecodeUTF8(text + name, one.topic_end - name, NULL)
            one.topic_id = ZERO_TOPIC_ID
    except UnicodeDecodeError:
        return None
    finally:
        PyBuffer_Release(&view)
    one.frame = frame
    one.records = frame[block[0]:block[1]]
    return one

cdef bytes ZERO_TOPIC_ID = bytes(16)
