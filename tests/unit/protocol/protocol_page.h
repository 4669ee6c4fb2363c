// docs/PROTOCOL.md as tests read it: fenced blocks "```hex NAME" hold bytes (up to two spaces, then
// words), others hold rows.
#ifndef PROTOCOL_PAGE_H
#define PROTOCOL_PAGE_H

#include "test_kit.h"

#include "base/str.h"

#define PAGE_MAX  (192u * 1024)
#define BLOCK_MAX 1024u

static char page[PAGE_MAX];

struct block {
    uint8_t bytes[BLOCK_MAX];
    size_t size;
};

static inline int read_page(void **state)
{
    (void)state;
    FILE *file = fopen(WALLE_SOURCE_DIR "/docs/PROTOCOL.md", "rb");
    assert_non_null(file);
    size_t size = fread(page, 1, sizeof page - 1, file);
    (void)fclose(file);
    assert_true(size > 1000 && size < sizeof page - 1);
    page[size] = '\0';
    return 0;
}

// The text behind the line "```KIND NAME".
static inline const char *find_block(const char *kind, const char *name)
{
    char fence[64];
    (void)snprintf(fence, sizeof fence, "\n```%s %s\n", kind, name);
    const char *at = strstr(page, fence);
    if (at == NULL) {
        fail_msg("no block %s %s", kind, name);
        return "";
    }
    return at + strlen(fence);
}

static inline void read_hex(const char *name, struct block *block)
{
    const char *at = find_block("hex", name);
    block->size = 0;
    while (strncmp(at, "```", 3) != 0) {
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        // Pairs of digits, each with a space behind it; anything else begins the words.
        while (at + 1 < end && base_hex_decode((struct base_str){at, 2}, &block->bytes[block->size],
                                               1) == BASE_OK) {
            block->size++;
            assert_true(block->size < BLOCK_MAX);
            at += 2;
            at += at < end && *at == ' ';
            if (at < end && *at == ' ') {
                break;
            }
        }
        at = end + 1;
    }
    assert_true(block->size > 0);
}

static inline void expect(const char *name, const uint8_t *bytes, size_t size)
{
    struct block block;
    read_hex(name, &block);
    size_t same = 0;
    while (same < size && same < block.size && bytes[same] == block.bytes[same]) {
        same++;
    }
    if (same != size || size != block.size) {
        fail_msg("%s: %zu bytes here, %zu on the page, the first other one is %zu", name, size,
                 block.size, same);
    }
}

// A row of the tables of limits.
struct limit {
    const char *name;
    uint64_t value;
};

static inline void check_limits(const struct limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char row[96];
        (void)snprintf(row, sizeof row, "\n| `%s` | %llu |", limits[i].name,
                       (unsigned long long)limits[i].value);
        if (strstr(page, row) == NULL) {
            fail_msg("the table of limits lacks %s", row + 1);
        }
    }
}

#endif
