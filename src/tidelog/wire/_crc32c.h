/* CRC-32C (Castagnoli), the checksum of record batches.
 *
 * The CPU's instruction takes 8 bytes in 3 cycles but can start anew in every cycle, so three
 * stretches of the data are computed side by side and joined: the first's checksum is moved
 * over the length of the next by a table, as if that many zero bytes followed.
 * Where there is no such instruction, eight tables take 8 bytes at a time.
 */
#ifndef TIDELOG_CRC32C_H
#define TIDELOG_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CRC32C_POLYNOMIAL 0x82F63B78u
#define CRC32C_LONG 1024 /* bytes of one of three stretches; multiples of 8 */
#define CRC32C_SHORT 128

static uint32_t crc32c_table[8][256];

static void crc32c_fill_tables(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32C_POLYNOMIAL : crc >> 1;
        crc32c_table[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++) {
            uint32_t before = crc32c_table[k - 1][n];
            crc32c_table[k][n] = crc32c_table[0][before & 0xFF] ^ before >> 8;
        }
}

static uint32_t crc32c_portable(uint32_t crc, const unsigned char *data, size_t size) {
    crc = ~crc;
    while (size >= 8) {
        /* Byte by byte, so that it is right on either endianness and any alignment. */
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                              (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc32c_table[7][low & 0xFF] ^ crc32c_table[6][low >> 8 & 0xFF] ^
              crc32c_table[5][low >> 16 & 0xFF] ^ crc32c_table[4][low >> 24] ^
              crc32c_table[3][data[4]] ^ crc32c_table[2][data[5]] ^
              crc32c_table[1][data[6]] ^ crc32c_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--)
        crc = crc32c_table[0][(crc ^ *data++) & 0xFF] ^ crc >> 8;
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define CRC32C_HARDWARE __attribute__((target("sse4.2")))
#define CRC32C_STEP8(crc, word) _mm_crc32_u64(crc, word)
#define CRC32C_STEP1(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)
static int crc32c_cpu_has_it(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32) && !defined(__AARCH64EB__)
#include <arm_acle.h>
#define CRC32C_HARDWARE
#define CRC32C_STEP8(crc, word) __crc32cd((uint32_t)(crc), word)
#define CRC32C_STEP1(crc, byte) __crc32cb((uint32_t)(crc), byte)
static int crc32c_cpu_has_it(void) { return 1; } /* the compiler was told so */
#endif

#ifdef CRC32C_HARDWARE

/* What CRC32C_LONG or CRC32C_SHORT zero bytes make of a checksum, for each of its 4 bytes. */
static uint32_t crc32c_over_long[4][256];
static uint32_t crc32c_over_short[4][256];

CRC32C_HARDWARE static void crc32c_fill_over(uint32_t over[4][256], size_t size) {
    for (int byte = 0; byte < 4; byte++) {
        over[byte][0] = 0;
        for (uint32_t bit = 1; bit < 256; bit <<= 1) {
            uint64_t crc = bit << 8 * byte;
            for (size_t n = 0; n < size; n += 8)
                crc = CRC32C_STEP8(crc, 0);
            /* The map is linear: an entry is the sum of its bits' entries. */
            for (uint32_t n = 0; n < bit; n++)
                over[byte][bit + n] = (uint32_t)crc ^ over[byte][n];
        }
    }
}

static inline uint32_t crc32c_move(uint32_t over[4][256], uint32_t crc) {
    return over[0][crc & 0xFF] ^ over[1][crc >> 8 & 0xFF] ^ over[2][crc >> 16 & 0xFF] ^
           over[3][crc >> 24];
}

static inline uint64_t crc32c_word(const unsigned char *data) {
    uint64_t word;
    memcpy(&word, data, 8); /* any alignment */
    return word;
}

CRC32C_HARDWARE static inline uint64_t crc32c_three(
    uint64_t crc, const unsigned char *data, size_t stretch, uint32_t over[4][256]) {
    uint64_t second = 0, third = 0;
    for (const unsigned char *end = data + stretch; data < end; data += 8) {
        crc = CRC32C_STEP8(crc, crc32c_word(data));
        second = CRC32C_STEP8(second, crc32c_word(data + stretch));
        third = CRC32C_STEP8(third, crc32c_word(data + 2 * stretch));
    }
    crc = crc32c_move(over, (uint32_t)crc) ^ second;
    return crc32c_move(over, (uint32_t)crc) ^ third;
}

CRC32C_HARDWARE static uint32_t crc32c_hardware(
    uint32_t value, const unsigned char *data, size_t size) {
    uint64_t crc = ~value;
    for (; size >= 3 * CRC32C_LONG; size -= 3 * CRC32C_LONG, data += 3 * CRC32C_LONG)
        crc = crc32c_three(crc, data, CRC32C_LONG, crc32c_over_long);
    for (; size >= 3 * CRC32C_SHORT; size -= 3 * CRC32C_SHORT, data += 3 * CRC32C_SHORT)
        crc = crc32c_three(crc, data, CRC32C_SHORT, crc32c_over_short);
    for (; size >= 8; size -= 8, data += 8)
        crc = CRC32C_STEP8(crc, crc32c_word(data));
    for (; size; size--, data++)
        crc = CRC32C_STEP1(crc, *data);
    return ~(uint32_t)crc;
}
#endif

static uint32_t (*crc32c_extend)(uint32_t, const unsigned char *, size_t) = crc32c_portable;

/* Called once, when the module is imported. */
static void crc32c_choose(void) {
    crc32c_fill_tables();
#ifdef CRC32C_HARDWARE
    if (crc32c_cpu_has_it()) {
        crc32c_fill_over(crc32c_over_long, CRC32C_LONG);
        crc32c_fill_over(crc32c_over_short, CRC32C_SHORT);
        crc32c_extend = crc32c_hardware;
    }
#endif
}

#endif
