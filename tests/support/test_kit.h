// What every unit test here starts with: cmocka with the headers it needs, an allocator that fails
// on demand, and copies of exactly the size given, so that a sanitizer sees the first byte read
// past the end.
#ifndef TEST_KIT_H
#define TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ports.h"
#include "base/prng.h"

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

// The nth allocation from now fails, and all after it; `live` counts what was not released.
struct test_alloc {
    struct base_alloc_port port;
    size_t allowed; // SIZE_MAX: never fails
    size_t calls;
    size_t live;
};

static inline void *test_alloc_take(void *ctx, size_t size_bytes)
{
    struct test_alloc *self = ctx;
    self->calls++;
    if (self->allowed == 0) {
        return NULL;
    }
    if (self->allowed != SIZE_MAX) {
        self->allowed--;
    }
    self->live++;
    void *memory = malloc(size_bytes);
    assert_non_null(memory);
    memset(memory, 0xa5, size_bytes); // nothing may rely on zeros
    return memory;
}

static inline void test_alloc_release(void *ctx, void *memory)
{
    struct test_alloc *self = ctx;
    if (memory != NULL) {
        assert_true(self->live > 0);
        self->live--;
    }
    free(memory);
}

static inline void test_alloc_init(struct test_alloc *self, size_t allowed)
{
    *self = (struct test_alloc){.allowed = allowed};
    self->port = (struct base_alloc_port){
        .ctx = self, .alloc = test_alloc_take, .release = test_alloc_release};
}

// A heap copy of exactly `size` bytes; free() it.
static inline uint8_t *test_exact(const void *bytes, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

// Seeds `prng` with WALLE_TEST_SEED or a constant, and says so first.
static inline void test_seed(struct base_prng *prng)
{
    const char *text = getenv("WALLE_TEST_SEED");
    uint64_t seed = 20261121;
    if (text != NULL) {
        seed = 0;
        for (; *text >= '0' && *text <= '9'; text++) {
            seed = seed * 10 + (uint64_t)(*text - '0');
        }
    }
    printf("seed %llu\n", (unsigned long long)seed);
    base_prng_seed(prng, seed);
}

#endif
