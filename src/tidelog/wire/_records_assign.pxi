# assign_rows. The first pass gives each row its target, which is a partition of a topic, and counts;
# the second writes row numbers behind one another, target by target.

cdef enum:
    TARGETS_MAX = 1 << 24  # partitions of all topics together


cdef struct TopicTurn:
    int64_t first_target, partition_count
    int64_t available_start, available_count
    int64_t turn, turn_bytes, taken_bytes


cdef inline uint32_t murmur2(const uint8_t* data, int64_t size) noexcept nogil:
    """As Kafka's clients hash keys."""
    cdef uint32_t hashed = <uint32_t>0x9747B28Cu ^ <uint32_t>size
    cdef uint32_t word
    cdef int64_t rest = size & 3
    cdef const uint8_t* end = data + (size - rest)
    while data < end:
        word = data[0] | data[1] << 8 | data[2] << 16 | <uint32_t>data[3] << 24
        word *= 0x5BD1E995
        word ^= word >> 24
        hashed = hashed * 0x5BD1E995 ^ word * 0x5BD1E995
        data += 4
    if rest:
        if rest == 3:
            hashed ^= data[2] << 16
        if rest >= 2:
            hashed ^= data[1] << 8
        hashed = (hashed ^ data[0]) * 0x5BD1E995
    hashed = (hashed ^ hashed >> 13) * 0x5BD1E995
    return hashed ^ hashed >> 15


cdef class IntReader:
    """An int32 column of the caller's; without one every row is null."""
    cdef Py_buffer values, validity
    cdef bint present, with_validity
    cdef int64_t validity_start

    def __cinit__(self, values, validity, int64_t validity_start, int64_t rows):
        if values is None:
            return
        PyObject_GetBuffer(values, &self.values, PyBUF_SIMPLE)
        self.present = True
        want_size(&self.values, rows * 4)
        if validity is None:
            return
        PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
        self.with_validity = True
        self.validity_start = validity_start
        if validity_start < 0 or self.validity.len * 8 < validity_start + rows:
            raise ValueError("a validity bitmap has fewer bits than there are rows")

    def __dealloc__(self):
        if self.present:
            PyBuffer_Release(&self.values)
        if self.with_validity:
            PyBuffer_Release(&self.validity)

    cdef inline bint has(self, int64_t row) noexcept nogil:
        cdef int64_t bit = self.validity_start + row
        if not self.present:
            return False
        if not self.with_validity:
            return True
        return (<const uint8_t*>self.validity.buf)[bit >> 3] >> (bit & 7) & 1

    cdef inline int64_t at(self, int64_t row) noexcept nogil:
        return read_int32(&self.values, row)


cdef class RowAssigner:
    cdef RowReader keys, values
    cdef IntReader chosen, topics
    cdef bytearray turns_memory, available_memory, targets_memory, ends_memory
    cdef TopicTurn* turns
    cdef const int32_t* available
    cdef int32_t* targets
    cdef int64_t* ends
    cdef int64_t rows, topic_count, target_count

    def __cinit__(self, columns, chosen, topics, placements):
        self.rows = columns.rows
        if not 0 <= self.rows <= 0x7FFFFFFF:
            raise ValueError("the count of rows is out of range")
        self.keys = RowReader(columns.keys, self.rows)
        self.values = RowReader(columns.values, self.rows)
        if chosen is None:
            self.chosen = IntReader(None, None, 0, self.rows)
        else:
            self.chosen = IntReader(
                chosen.values, chosen.validity, chosen.validity_start, self.rows
            )
        self.topics = IntReader(topics, None, 0, self.rows)
        self.read_placements(placements)
        self.targets_memory = bytearray(self.rows * 4)
        self.targets = <int32_t*>PyByteArray_AS_STRING(self.targets_memory)
        self.ends_memory = bytearray((self.target_count + 1) * 8)
        self.ends = <int64_t*>PyByteArray_AS_STRING(self.ends_memory)

    cdef read_placements(self, placements):
        cdef int64_t index
        cdef TopicTurn* turn
        self.topic_count = len(placements)
        if not self.topic_count:
            raise ValueError("rows need a placement")
        self.turns_memory = bytearray(self.topic_count * sizeof(TopicTurn))
        self.turns = <TopicTurn*>PyByteArray_AS_STRING(self.turns_memory)
        self.available_memory = bytearray()
        for index in range(self.topic_count):
            placement = placements[index]
            turn = &self.turns[index]
            turn.first_target = self.target_count
            turn.partition_count = placement.partition_count
            turn.turn_bytes = placement.turn_bytes
            turn.turn = placement.turn
            turn.taken_bytes = placement.taken_bytes
            turn.available_start = len(self.available_memory) // 4
            self.available_memory += memoryview(placement.available).cast("B")
            turn.available_count = len(self.available_memory) // 4 - turn.available_start
            if turn.partition_count < 1 or turn.partition_count > TARGETS_MAX:
                raise ValueError(f"a topic of {turn.partition_count} partitions")
            if turn.available_count < 1 or not 0 <= turn.turn < turn.available_count:
                raise ValueError("it is nobody's turn")
            self.target_count += turn.partition_count
        if self.target_count > TARGETS_MAX:
            raise ValueError(f"rows for {self.target_count} partitions")
        self.available = <const int32_t*>PyByteArray_AS_STRING(self.available_memory)

    cdef int64_t next_in_turn(self, TopicTurn* turn, int64_t size) except -1:
        """The partition of a row of this size that has neither a choice nor a key."""
        cdef int64_t partition = self.available[turn.available_start + turn.turn]
        if partition < 0 or partition >= turn.partition_count:
            raise ValueError(f"partition {partition} of {turn.partition_count} has its turn")
        turn.taken_bytes += size
        if turn.taken_bytes >= turn.turn_bytes:
            turn.taken_bytes = 0
            turn.turn = (turn.turn + 1) % turn.available_count
        return partition

    cdef int64_t assign(self) except -2:
        """Give every row its target, and count rows; the first bad row, or -1."""
        cdef Field key, value
        cdef TopicTurn* turn = self.turns
        cdef int64_t row, topic, partition
        for row in range(self.rows):
            if self.topics.present:
                topic = self.topics.at(row)
                if topic < 0 or topic >= self.topic_count:
                    raise ValueError(f"row {row} has topic {topic} of {self.topic_count}")
                turn = &self.turns[topic]
            self.keys.read(row, &key)
            if self.chosen.has(row):
                partition = self.chosen.at(row)
                if partition < 0 or partition >= turn.partition_count:
                    return row
            elif key.start != NULL:
                partition = (murmur2(key.start, key.size) & 0x7FFFFFFF) % turn.partition_count
            else:
                self.values.read(row, &value)
                partition = self.next_in_turn(turn, value.size)
            partition += turn.first_target
            self.targets[row] = <int32_t>partition
            self.ends[partition] += 1
        return -1

    cdef bytes sort(self):
        """Row numbers by target; afterwards `ends` says where each target's end."""
        cdef int64_t row, target, count
        cdef int64_t start = 0
        for target in range(self.target_count):
            count = self.ends[target]
            self.ends[target] = start
            start += count
        cdef bytes order = PyBytes_FromStringAndSize(NULL, self.rows * 4)
        cdef int32_t* rows = <int32_t*>PyBytes_AS_STRING(order)
        for row in range(self.rows):
            target = self.targets[row]
            rows[self.ends[target]] = <int32_t>row
            self.ends[target] += 1
        return order

    cdef list groups(self):
        cdef list found = []
        cdef int64_t topic, partition, end
        cdef int64_t start = 0
        for topic in range(self.topic_count):
            for partition in range(self.turns[topic].partition_count):
                end = self.ends[self.turns[topic].first_target + partition]
                if end > start:
                    found.append(RowGroup(topic, partition, start, end))
                start = end
        return found


def assign_rows(columns, chosen, topics, placements, /):
    cdef RowAssigner assigner = RowAssigner(columns, chosen, topics, placements)
    if topics is None and assigner.topic_count != 1:
        raise ValueError(f"rows without a topic, and {assigner.topic_count} placements")
    cdef int64_t bad_row = assigner.assign()
    if bad_row >= 0:
        return AssignedRows(b"", [], bad_row)
    order = assigner.sort()
    groups = assigner.groups()
    cdef int64_t topic
    for topic in range(assigner.topic_count):
        placements[topic].turn = assigner.turns[topic].turn
        placements[topic].taken_bytes = assigner.turns[topic].taken_bytes
    return AssignedRows(order, groups, -1)
