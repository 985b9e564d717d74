# Many batches summed up at once, for a log that reads all of its own.


def sum_up_batches(
    kind, batches, int64_t position, int64_t next_offset, int64_t last_offset_max, int attributes,
    int64_t interval_bytes, state, kept_max, /,
):
    cdef int64_t unindexed, greatest, reached, epoch, recent_max, batches_max
    unindexed, greatest, reached, epoch = state
    recent_max, batches_max = kept_max
    cdef list entries = [], epochs = []
    cdef Growing positions = Growing()
    cdef int64_t count = 0
    cdef Py_buffer view
    cdef BatchHead head
    cdef const uint8_t* at
    PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE)
    try:
        while 0 <= position < view.len:
            at = <const uint8_t*>view.buf + position
            if not read_head(at, view.len - position, next_offset, &head):
                break
            if head.attributes & attributes or head.next_offset - 1 > last_offset_max:
                break
            if not crc_is_right(at, head.size):
                break
            if <int32_t>big_endian(at + 12, 4) > epoch:
                epoch = <int32_t>big_endian(at + 12, 4)
                epochs.append((epoch, head.base_offset))
            if head.max_timestamp > greatest:
                greatest, reached = head.max_timestamp, head.next_offset - 1
            if unindexed > interval_bytes:
                entries.append(IndexEntry(head.next_offset - 1, position, greatest, reached))
                unindexed = 0
            unindexed += head.size
            positions.reserve((count + 1) * sizeof(int64_t))
            (<int64_t*>positions.start)[count] = position
            count += 1
            position += head.size
            next_offset = head.next_offset
        kept = last_of_each(kind, batches, &view, <int64_t*>positions.start, count, batches_max)
        recent = recent_places(&view, <int64_t*>positions.start, count, recent_max)
    finally:
        PyBuffer_Release(&view)
    after = RunState(unindexed, greatest, reached, epoch)
    return BatchRun(position, next_offset, after, entries, epochs, recent), kept


cdef list recent_places(Py_buffer* view, int64_t* positions, int64_t count, int64_t recent_max):
    cdef list found = []
    cdef int64_t index
    cdef const uint8_t* at
    for index in range(max(0, count - max(0, recent_max)), count):
        at = <const uint8_t*>view.buf + positions[index]
        found.append((
            <int64_t>big_endian(at, 8) + <int32_t>big_endian(at + 23, 4), positions[index]
        ))
    return found


cdef list last_of_each(
    kind, batches, Py_buffer* view, int64_t* positions, int64_t count, int64_t batches_max
):
    cdef list found = []
    cdef dict seen = {}
    cdef int64_t index, producer_id, known
    cdef int64_t complete = -1  # one that has enough, mostly the only one there is
    cdef int16_t producer_epoch
    cdef const uint8_t* at
    for index in range(count - 1, -1, -1):
        at = <const uint8_t*>view.buf + positions[index]
        producer_id = <int64_t>big_endian(at + 43, 8)
        if producer_id < 0 or producer_id == complete:
            continue
        producer_epoch = <int16_t>big_endian(at + 51, 2)
        known, epoch = seen.get(producer_id, (0, producer_epoch))
        if known >= batches_max:
            complete = producer_id
            continue
        seen[producer_id] = (known + 1 if producer_epoch == epoch else batches_max), epoch
        found.append(batch_at(kind, batches, positions[index], at))
    found.reverse()
    return found
