# The columns that a ColumnDecoder fills, and the memory that they lie in.

cdef enum:
    SPARE_BYTES_MAX = 32 << 20  # of one column; more goes back to the system


cdef class Growing:
    """Memory that grows. What was written is handed over with its memory, which comes back when
    nobody reads it any more: fresh memory costs more, in page faults, than all the decoding."""
    cdef uint8_t* start
    cdef Py_ssize_t capacity
    cdef uint8_t* spare
    cdef Py_ssize_t spare_capacity

    def __dealloc__(self):
        PyMem_RawFree(self.start)
        PyMem_RawFree(self.spare)

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef void* moved
        if size <= self.capacity:
            return 0
        size = max(size, self.capacity + (self.capacity >> 1), 256)
        moved = PyMem_RawRealloc(self.start, size)
        if moved == NULL:
            raise MemoryError
        self.start = <uint8_t*>moved
        self.capacity = size
        return 0

    cdef bytes copy(self, Py_ssize_t size):
        assert size <= self.capacity
        return PyBytes_FromStringAndSize(<const char*>self.start, size)

    cdef object take(self, Py_ssize_t size):
        cdef Taken taken
        self.reserve(1)
        assert size <= self.capacity
        taken = Taken.__new__(Taken)
        taken.origin = self
        taken.start = self.start
        taken.size = size
        taken.capacity = self.capacity
        self.start = self.spare
        self.capacity = self.spare_capacity
        self.spare = NULL
        self.spare_capacity = 0
        return memoryview(taken)


@cython.no_gc
cdef class Taken:
    """What a Growing held."""
    cdef Growing origin
    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.size, 1, flags)

    def __dealloc__(self):
        if self.origin.spare == NULL and self.capacity <= SPARE_BYTES_MAX:
            self.origin.spare = self.start
            self.origin.spare_capacity = self.capacity
        else:
            PyMem_RawFree(self.start)


cdef struct Binary:
    # The pointers of a BinaryGrowing, as the loop uses them.
    int32_t* offsets
    uint8_t* data
    uint8_t* validity
    int64_t rows
    int64_t size
    int64_t nulls


cdef inline void append_field(Binary* column, Field field) noexcept nogil:
    if field.start == NULL:
        column.validity[column.rows >> 3] &= <uint8_t>~(1 << (column.rows & 7))
        column.nulls += 1
    else:
        memcpy(column.data + column.size, field.start, field.size)
        column.size += field.size
    column.rows += 1
    column.offsets[column.rows] = <int32_t>column.size


cdef class BinaryGrowing:
    """A binary column that grows."""
    cdef Growing offsets, data, validity
    cdef Binary at

    def __cinit__(self):
        self.offsets = Growing()
        self.data = Growing()
        self.validity = Growing()

    cdef int reserve(self, int64_t rows, int64_t size) except -1:
        cdef Py_ssize_t validity_before = self.validity.capacity
        rows += self.at.rows
        self.offsets.reserve((rows + 1) * 4)
        self.data.reserve(self.at.size + size)
        self.validity.reserve((rows >> 3) + 1)
        # Valid until found null: nulls are the rarer.
        memset(self.validity.start + validity_before, 0xFF,
               self.validity.capacity - validity_before)
        self.at.offsets = <int32_t*>self.offsets.start
        self.at.data = self.data.start
        self.at.validity = self.validity.start
        self.at.offsets[0] = 0
        return 0

    cdef object take(self):
        cdef int64_t rows = self.at.rows
        self.reserve(0, 0)
        validity = None
        if self.at.nulls:
            if rows & 7:
                self.at.validity[rows >> 3] &= <uint8_t>((1 << (rows & 7)) - 1)
            validity = self.validity.copy((rows + 7) >> 3)
            memset(self.at.validity, 0xFF, (rows + 7) >> 3)
        column = BinaryColumn(
            self.offsets.take((rows + 1) * 4), self.data.take(self.at.size), validity, self.at.nulls
        )
        self.at.rows = self.at.size = self.at.nulls = 0
        return column

    cdef void cut(self, Binary* before) noexcept:
        """Back to fewer rows; the memory may have moved since."""
        cdef int64_t row
        for row in range(before.rows, self.at.rows):
            self.at.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
        self.at.rows = before.rows
        self.at.size = before.size
        self.at.nulls = before.nulls
