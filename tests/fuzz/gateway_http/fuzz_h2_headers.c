// Fuzz target of header blocks through a whole connection: the input is a program that writes HPACK
// (RFC 7541) in all its forms, right and wrong: indices of the static table, of the dynamic one and
// beyond, literals with each kind of indexing, Huffman codes, changes of the table's size, endless
// integers, the same field thousands of times; in HEADERS and CONTINUATION frames of any cut, with
// padding, priorities, DATA and trailers. So mutations stay requests for longer than raw bytes do.
#include "connection_fuzz.h"
#include "fuzz_target.h"

#include <stdbool.h>
#include <string.h>

#define OUTPUT_MAX  (192u * 1024)
#define BLOCK_MAX   (64u * 1024)
#define REPEATS_MAX 8192u

#define TYPE_DATA         0u
#define TYPE_HEADERS      1u
#define TYPE_CONTINUATION 9u
#define FLAG_END_STREAM   0x01u
#define FLAG_END_HEADERS  0x04u
#define FLAG_PADDED       0x08u
#define FLAG_PRIORITY     0x20u

// What the input may ask of a block.
enum step {
    STEP_REQUEST, // the four pseudo headers
    STEP_INDEXED,
    STEP_INDEXED_LARGE, // an index of more than one byte
    STEP_LITERAL,
    STEP_LITERAL_NAMED, // by one of `names`
    STEP_HUFFMAN,
    STEP_TABLE_SIZE,
    STEP_ENDLESS, // an integer without an end
    STEP_REPEAT,  // the last step's bytes again
    STEP_END,
    STEP_COUNT
};

static const char *const names[] = {
    ":path",
    ":method",
    "host",
    "walle-device",
    "walle-profile",
    "walle-credential",
    "content-type",
    "connection",
    "content-length",
    "te",
    "x-forwarded-for",
    "authorization",
    "walle-nonce",
    "range",
    "A",
    "",
};

struct input {
    const uint8_t *at;
    size_t left;
};

struct output {
    uint8_t bytes[OUTPUT_MAX];
    size_t size;
};

static struct output block;
static struct output frames;

static uint8_t take(struct input *input)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->at++;
}

static void put(struct output *out, size_t limit, const void *bytes, size_t size)
{
    size = size < limit - out->size ? size : limit - out->size;
    if (size > 0) {
        memcpy(out->bytes + out->size, bytes, size);
        out->size += size;
    }
}

static void put_u8(struct output *out, uint8_t byte)
{
    put(out, OUTPUT_MAX, &byte, 1);
}

// An integer with a prefix of so many bits (RFC 7541, 5.1).
static void put_integer(uint8_t first, unsigned bits, uint32_t value)
{
    uint32_t limit = (1u << bits) - 1;
    if (value < limit) {
        put_u8(&block, (uint8_t)(first | value));
        return;
    }
    put_u8(&block, (uint8_t)(first | limit));
    for (value -= limit; value >= 128; value /= 128) {
        put_u8(&block, (uint8_t)(value % 128 + 128));
    }
    put_u8(&block, (uint8_t)value);
}

static void put_text(uint8_t flag, const void *bytes, size_t size)
{
    put_integer(flag, 7, (uint32_t)size);
    put(&block, BLOCK_MAX, bytes, size);
}

// A text of the input's bytes, or of one of them many times.
static void put_input(struct input *input, uint8_t flag)
{
    static uint8_t long_text[8 * 255];
    uint8_t size = take(input);
    if (size >= 64) {
        memset(long_text, take(input), sizeof(long_text));
        put_text(flag, long_text, 8u * size);
        return;
    }
    size_t have = size < input->left ? size : input->left;
    put_text(flag, input->at, have);
    input->at += have;
    input->left -= have;
}

static void put_request(uint8_t kind)
{
    static const char *const paths[] = {"/v1/checkin", "/v1/push", "/v1/report", "/api/v1/tasks"};
    put_u8(&block, (kind & 4) != 0 ? 0x83 : 0x82); // POST, GET
    put_u8(&block, 0x86);                          // http
    put_integer(0x00, 4, 1);
    put_text(0, "localhost", 9);
    put_integer((kind & 8) != 0 ? 0x40 : 0x00, (kind & 8) != 0 ? 6 : 4, 4);
    put_text(0, paths[kind & 3], strlen(paths[kind & 3]));
}

static void put_literal(struct input *input, enum step step)
{
    static const struct {
        uint8_t first;
        uint8_t bits;
    } kinds[] = {{0x40, 6}, {0x00, 4}, {0x10, 4}, {0x40, 6}};
    uint8_t how = take(input);
    uint8_t flag = step == STEP_HUFFMAN ? 0x80 : 0x00;
    if (step == STEP_LITERAL) {
        put_integer(kinds[how & 3].first, kinds[how & 3].bits, (uint32_t)(how >> 2) + 1);
    } else {
        put_u8(&block, kinds[how & 3].first);
        const char *name = names[(how >> 2) % (sizeof(names) / sizeof(names[0]))];
        put_text(0, name, strlen(name));
    }
    put_input(input, flag);
}

static void repeat(struct input *input, size_t from)
{
    uint32_t count = ((uint32_t)take(input) << 8 | take(input)) % REPEATS_MAX;
    size_t size = block.size - from;
    for (uint32_t i = 0; i < count && block.size + size < BLOCK_MAX; i++) {
        put(&block, BLOCK_MAX, block.bytes + from, size);
    }
}

static void take_step(struct input *input, enum step step, size_t last)
{
    switch (step) {
    case STEP_REQUEST:
        put_request(take(input));
        return;
    case STEP_INDEXED:
        put_u8(&block, take(input) | 0x80);
        return;
    case STEP_INDEXED_LARGE:
        put_integer(0x80, 7, 127u + ((uint32_t)take(input) << 8 | take(input)));
        return;
    case STEP_TABLE_SIZE:
        put_integer(0x20, 5, (uint32_t)take(input) * take(input));
        return;
    case STEP_ENDLESS:
        put_u8(&block, 0x7f);
        for (int i = 0; i < 12; i++) {
            put_u8(&block, 0xff);
        }
        return;
    case STEP_REPEAT:
        repeat(input, last);
        return;
    case STEP_LITERAL:
    case STEP_LITERAL_NAMED:
    case STEP_HUFFMAN:
        put_literal(input, step);
        return;
    default:
        return;
    }
}

static void make_block(struct input *input)
{
    block.size = 0;
    size_t last = 0;
    while (input->left > 0 && block.size < BLOCK_MAX) {
        enum step step = (enum step)(take(input) % STEP_COUNT);
        if (step == STEP_END) {
            return;
        }
        size_t begin = block.size;
        take_step(input, step, last);
        last = step == STEP_REPEAT ? last : begin;
    }
}

static void put_frame(uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
                      size_t size)
{
    const uint8_t head[9] = {(uint8_t)(size >> 16),
                             (uint8_t)(size >> 8),
                             (uint8_t)size,
                             type,
                             flags,
                             (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16),
                             (uint8_t)(stream >> 8),
                             (uint8_t)stream};
    if (OUTPUT_MAX - frames.size >= sizeof(head) + size) {
        put(&frames, OUTPUT_MAX, head, sizeof(head));
        put(&frames, OUTPUT_MAX, payload, size);
    }
}

// The block in frames of at most `cut` bytes; the first may carry padding and a priority.
static void put_block(uint32_t stream, uint8_t how, size_t cut)
{
    static uint8_t first[BLOCK_MAX + 16];
    size_t extra = 0;
    uint8_t flags = how & (FLAG_END_STREAM | FLAG_PADDED | FLAG_PRIORITY);
    if ((flags & FLAG_PADDED) != 0) {
        first[extra++] = 0;
    }
    if ((flags & FLAG_PRIORITY) != 0) {
        memset(first + extra, 0, 5);
        extra += 5;
    }
    size_t at = block.size < cut ? block.size : cut;
    memcpy(first + extra, block.bytes, at);
    put_frame(TYPE_HEADERS, flags | (at == block.size ? FLAG_END_HEADERS : 0), stream, first,
              extra + at);
    while (at < block.size) {
        size_t size = block.size - at < cut ? block.size - at : cut;
        bool end = at + size == block.size && (how & 0x40) == 0; // or it never ends
        put_frame(TYPE_CONTINUATION, end ? FLAG_END_HEADERS : 0, stream, block.bytes + at, size);
        at += size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint32_t stream = 1;
    frames.size = 0;
    while (input.left > 0 && frames.size < OUTPUT_MAX - BLOCK_MAX) {
        uint8_t how = take(&input);
        size_t cut = how & 0x80 ? 1u + take(&input) * 64u : 16384u;
        make_block(&input);
        put_block(stream, how, cut);
        if ((how & FLAG_END_STREAM) == 0 && (how & 0x02) != 0) {
            put_frame(TYPE_DATA, 0, stream, "0123456789", 10);
            continue; // the next block is trailers
        }
        stream += how & 0x10 ? 4 : 2;
    }
    connection_fuzz_run(frames.bytes, frames.size);
    return 0;
}
