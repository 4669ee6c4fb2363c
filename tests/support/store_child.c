// The process that tests/e2e/test_task_store_kill.py kills: it saves a task's store again and
// again, as the end of a run does, on the LMDB store in DIR. On stdout, each line written before
// what it stands for can be durable, acknowledgements after they are:
//
//   F number size   what the store held at the start: its number, and bytes of its padding
//   P number        this is going to be saved
//   A number        it is durable
//
// The padding of a number says whose it is in every byte, so half of one save and half of another
// are found: the process ends with 1 and says so.
#include "base/clock.h"
#include "base/error.h"
#include "pipeline/storage/task_store.h"
#include "posix/store/posix_kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASK_ID     UINT64_C(0x1234)
#define PADDING_MAX 60000u
#define QUOTA       ((size_t)WIRE_STORE_QUOTA_KIB_MAX * 1024)

static void check(enum base_status status, const char *what)
{
    if (status != BASE_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, base_status_text(status));
        exit(1);
    }
}

static void say(const char *what, uint64_t number, size_t size)
{
    char line[64];
    int length =
        snprintf(line, sizeof(line), "%s %llu %zu\n", what, (unsigned long long)number, size);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) {
        exit(0); // nobody listens any more
    }
}

// Small ones wait in a group with others, large ones are a commit of their own.
static size_t padding_of(uint64_t number)
{
    return number % 3 == 0 ? 0 : (size_t)(number * 7919 % PADDING_MAX);
}

static uint64_t store_read(struct dev_collect *collect)
{
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    const struct dev_task_store_of of = {.task_id = TASK_ID};
    struct wire_store store;
    struct base_span value = {NULL, 0};
    uint64_t number = 0;
    size_t size = 0;
    check(dev_task_store_load(collect, &of, bytes, &size), "load");
    check(wire_store_parse(bytes, size, &store), "parse");
    if (wire_store_find(&store, BASE_STR("n"), &value) == BASE_OK) {
        memcpy(&number, value.data, sizeof(number));
        check(wire_store_find(&store, BASE_STR("padding"), &value), "no padding");
        bool whole = value.size == padding_of(number);
        for (size_t i = 0; whole && i < value.size; i++) {
            whole = value.data[i] == (uint8_t)number;
        }
        check(whole ? BASE_OK : BASE_ERR_CORRUPT, "the store is half of one and half of another");
    }
    say("F", number, value.size);
    return number;
}

static void store_save(struct dev_collect *collect, uint64_t number)
{
    static uint8_t bytes[WIRE_STORE_IMAGE_MAX];
    static uint8_t padding[PADDING_MAX];
    const struct base_span n = {(const uint8_t *)&number, sizeof(number)};
    const struct base_span rest = {padding, padding_of(number)};
    struct wire_store store;
    memset(padding, (int)(number & 0xff), rest.size);
    wire_store_init(&store, bytes, 0);
    check(wire_store_put(&store, BASE_STR("n"), n, QUOTA), "put");
    check(wire_store_put(&store, BASE_STR("padding"), rest, QUOTA), "put");
    say("P", number, rest.size);
    dev_collect_begin(collect);
    check(dev_task_store_save(collect, base_clock_mono_us(), TASK_ID, &store), "save");
    check(dev_collect_end(collect, base_clock_mono_us()), "end");
    uint64_t changes = dev_collect_changes(collect);
    (void)dev_collect_step(collect, base_clock_mono_us());
    if (dev_collect_durable(collect) >= changes) {
        say("A", number, rest.size);
    }
}

int main(int argc, char **argv)
{
    struct base_error error = {0};
    struct posix_kv *kv = NULL;
    struct dev_collect *collect = NULL;
    struct posix_kv_options options = {.dir = argc > 1 ? argv[1] : "."};
    check(posix_kv_new(&options, &kv, &error), error.text);
    const struct dev_kv_port port = posix_kv_port(kv);
    size_t size = dev_collect_bytes();
    void *memory = aligned_alloc(16, (size + 15) / 16 * 16);
    check(memory != NULL ? BASE_OK : BASE_ERR_NOMEM, "memory");
    check(dev_collect_init(memory, size, &port, &collect), "init");
    check(dev_collect_boot(collect, base_clock_mono_us()), "boot");
    uint64_t number = store_read(collect);
    while (number < UINT64_MAX) { // until it is killed
        store_save(collect, ++number);
    }
    return 0;
}
