/* checksum.c - CRC-32C, by the instruction of the processor where it has one. */
#include "base/checksum.h"

#include "base/bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

/* Eight tables, so that eight bytes are processed at once: tables[k][n] is the checksum's part from
 * byte n when k more bytes follow. The checksum is linear, so every entry is the exclusive or of
 * the entries of its single bits. The compiler computes all 2,048 entries from 64. */
#define BIT(n, bit, value) ((n) >> (bit)&1 ? (value) : 0u)
#define ENTRY(n, a, b, c, d, e, f, g, h)                                                       \
    (BIT(n, 0, a) ^ BIT(n, 1, b) ^ BIT(n, 2, c) ^ BIT(n, 3, d) ^ BIT(n, 4, e) ^ BIT(n, 5, f) ^ \
     BIT(n, 6, g) ^ BIT(n, 7, h))
#define ROW4(n, ...)                                                             \
    ENTRY(n, __VA_ARGS__), ENTRY(n + 1, __VA_ARGS__), ENTRY(n + 2, __VA_ARGS__), \
        ENTRY(n + 3, __VA_ARGS__)
#define ROW16(n, ...)                                                         \
    ROW4(n, __VA_ARGS__), ROW4(n + 4, __VA_ARGS__), ROW4(n + 8, __VA_ARGS__), \
        ROW4(n + 12, __VA_ARGS__)
#define ROW64(n, ...)                                                              \
    ROW16(n, __VA_ARGS__), ROW16(n + 16, __VA_ARGS__), ROW16(n + 32, __VA_ARGS__), \
        ROW16(n + 48, __VA_ARGS__)
#define TABLE(...)                                                              \
    {                                                                           \
        ROW64(0, __VA_ARGS__), ROW64(64, __VA_ARGS__), ROW64(128, __VA_ARGS__), \
            ROW64(192, __VA_ARGS__)                                             \
    }

static const uint32_t tables[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc,
          0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604,
          0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9,
          0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7,
          0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae,
          0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb,
          0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a,
          0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32,
          0x34019664),
};

uint32_t checksum_crc32c_portable(uint32_t sum, const void *data, size_t size)
{
    const uint8_t *at = data;

    sum = ~sum;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word = get_le(at, 8) ^ sum;

        sum = 0;
        for (unsigned i = 0; i < 8; i++)
            sum ^= tables[7 - i][word >> (8 * i) & 255];
    }
    for (; size; at++, size--)
        sum = sum >> 8 ^ tables[0][(sum ^ *at) & 255];
    return ~sum;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t
checksum_crc32c_instruction(uint32_t sum, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t state = ~sum;

    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        state = _mm_crc32_u64(state, word);
    }
    for (; size; at++, size--)
        state = _mm_crc32_u8((uint32_t)state, *at);
    return ~(uint32_t)state;
}

static int checksum_has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#elif defined(__ARM_FEATURE_CRC32)

static uint32_t checksum_crc32c_instruction(uint32_t sum, const void *data, size_t size)
{
    const uint8_t *at = data;

    sum = ~sum;
    for (; size >= 8; at += 8, size -= 8)
        sum = __crc32cd(sum, get_le(at, 8));
    for (; size; at++, size--)
        sum = __crc32cb(sum, *at);
    return ~sum;
}

static int checksum_has_instruction(void)
{
    return 1;
}

#else

static uint32_t checksum_crc32c_instruction(uint32_t sum, const void *data, size_t size)
{
    return checksum_crc32c_portable(sum, data, size);
}

static int checksum_has_instruction(void)
{
    return 0;
}

#endif

uint32_t checksum_crc32c(uint32_t sum, const void *data, size_t size)
{
    return checksum_has_instruction() ? checksum_crc32c_instruction(sum, data, size)
                                      : checksum_crc32c_portable(sum, data, size);
}

/* The sum of data is the remainder of a polynomial, so a flip changes the sum by the remainder of a
 * power of x, whatever else the data is: by x^k for the bit that k bits follow, those of the stored
 * sum included. The remainder of x^0 is 1, which is the highest bit here. */
size_t checksum_find_flip(uint32_t difference, size_t size)
{
    const uint32_t polynomial = 0x82f63b78;
    uint32_t remainder = UINT32_C(1) << 31;

    for (size_t left = 8 * (size + sizeof(difference)); left-- > 0;) {
        if (remainder == difference)
            return left;
        remainder = remainder & 1 ? remainder >> 1 ^ polynomial : remainder >> 1;
    }
    return SIZE_MAX;
}
