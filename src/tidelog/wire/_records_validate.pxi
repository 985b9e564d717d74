# validate_records and walk_records.

cdef enum:
    BAD_RECORDS_MAX = 1000  # records_types.RECORD_ERRORS_MAX

assert BAD_RECORDS_MAX == RECORD_ERRORS_MAX

cdef struct Bad:
    int64_t index
    int64_t timestamp
    bint key_missing

cdef struct Validation:
    # in
    int64_t count
    int64_t base_timestamp
    int64_t timestamp_min
    int64_t timestamp_max
    bint key_required
    # out
    int64_t index
    int64_t position
    int64_t max_timestamp
    int64_t max_timestamp_offset_delta
    int64_t bad_count
    Bad bad[BAD_RECORDS_MAX]


cdef inline void refuse(
    Validation* check, int64_t index, int64_t timestamp, bint key_missing
) noexcept nogil:
    if check.bad_count < BAD_RECORDS_MAX:
        check.bad[check.bad_count].index = index
        check.bad[check.bad_count].timestamp = timestamp
        check.bad[check.bad_count].key_missing = key_missing
        check.bad_count += 1


cdef int validate(const uint8_t* start, const uint8_t* end, Validation* check) noexcept nogil:
    cdef const uint8_t* at = start
    cdef Record record
    cdef int64_t index = 0
    cdef int64_t timestamp
    cdef bint key_missing
    cdef int flaw
    while index < check.count:
        flaw = parse_record(at, end, &record)
        if flaw == NONE and record.offset_delta != index:
            flaw = OFFSET_DELTA
        if flaw != NONE:
            check.index = index
            check.position = at - start
            return flaw
        timestamp = add_wrapping(check.base_timestamp, record.timestamp_delta)
        if timestamp > check.max_timestamp:
            check.max_timestamp = timestamp
            check.max_timestamp_offset_delta = index
        key_missing = check.key_required and record.key.start == NULL
        if key_missing or (
            timestamp != -1
            and (timestamp < check.timestamp_min or timestamp > check.timestamp_max)
        ):
            refuse(check, index, timestamp, key_missing)
        at = record.end
        index += 1
    if at != end:
        check.index = index
        check.position = at - start
        return TRAILING_BYTES
    return NONE


def validate_records(
    data,
    int64_t count,
    int64_t base_timestamp,
    int64_t timestamp_min,
    int64_t timestamp_max,
    bint key_required,
    /,
):
    cdef Py_buffer view
    cdef Validation check
    cdef const uint8_t* start
    cdef int flaw
    cdef int64_t n
    check.count = count
    check.base_timestamp = base_timestamp
    check.timestamp_min = timestamp_min
    check.timestamp_max = timestamp_max
    check.key_required = key_required
    check.max_timestamp = check.max_timestamp_offset_delta = -1
    check.bad_count = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    start = <const uint8_t*>view.buf
    if view.len < NOGIL_BYTES_MIN:
        flaw = validate(start, start + view.len, &check)
    else:
        with nogil:
            flaw = validate(start, start + view.len, &check)
    PyBuffer_Release(&view)
    if flaw != NONE:
        return RecordsCheck(flaw, check.index, check.position, -1, -1, [])
    bad_records = []
    for n in range(check.bad_count):
        bad_records.append(
            BadRecord(check.bad[n].index, check.bad[n].key_missing, check.bad[n].timestamp)
        )
    return RecordsCheck(
        0, 0, 0, check.max_timestamp, check.max_timestamp_offset_delta, bad_records
    )


def walk_records(data, int64_t count, /):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return spans(<const uint8_t*>view.buf, view.len, count)
    finally:
        PyBuffer_Release(&view)


cdef list spans(const uint8_t* start, Py_ssize_t size, int64_t count):
    cdef const uint8_t* at = start
    cdef const uint8_t* end = start + size
    cdef Record record
    cdef int64_t index = 0
    cdef int64_t value_start, value_end
    cdef int flaw
    cdef list found = []
    new = tuple.__new__  # what RecordSpan's own constructor calls, without its Python frame
    while index < count:
        flaw = parse_record(at, end, &record)
        if flaw != NONE:
            raise CorruptRecords(flaw, index, at - start)
        value_start = value_end = -1
        if record.value.start != NULL:
            value_start = record.value.start - start
            value_end = value_start + record.value.size
        found.append(new(RecordSpan, (
            record.offset_delta,
            record.timestamp_delta,
            to_bytes(record.key),
            value_start,
            value_end,
            record.headers - start,
            at - start,
            record.tail - start,
            record.end - start,
        )))
        at = record.end
        index += 1
    if at != end:
        raise CorruptRecords(TRAILING_BYTES, index, at - start)
    return found


cdef inline object to_bytes(Field field):
    if field.start == NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>field.start, field.size)
