// Any bytes as a stream of calls over gRPC, in pieces of any size, to a peer that reads as it
// likes. Whole messages before the first thing that is none are answered once each, whatever is in
// them; the stream ends with a status; nothing is held behind it, and no window is lost while it
// lives.
//
// The first two bytes draw how the pieces are cut and when answers are read.
#include "open_rig.h"

#include "fuzz_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct world {
    struct rig rig;
    struct gw_infer_service *service;
    char dir[64];
    bool made;
} world;

static void unmake(void)
{
    rig_done(&world.rig);
    gw_infer_service_free(world.service);
    (void)rmdir(world.dir);
}

// No models: what is well-formed is answered with that.
static void make(void)
{
    struct base_error error = {0};
    (void)snprintf(world.dir, sizeof(world.dir), "/tmp/fuzz-infer-stream-XXXXXX");
    base_check(mkdtemp(world.dir) != NULL);
    const struct gw_infer_options options = {.models_dir = world.dir, .threads = 1};
    base_check(gw_infer_service_new(&options, &world.service, &error) == BASE_OK);
    rig_init(&world.rig);
    rig_start(&world.rig);
    gw_infer_install(world.rig.core, world.service, GW_METRICS_OPEN);
    world.made = true;
    (void)atexit(unmake);
}

static uint64_t size_at(const uint8_t *prefix)
{
    return (uint64_t)prefix[1] << 24 | (uint64_t)prefix[2] << 16 | (uint64_t)prefix[3] << 8 |
           prefix[4];
}

// Whole messages, as far as those go; and whether the stream ends behind one.
static size_t count_messages(const uint8_t *data, size_t size, bool *out_whole)
{
    size_t count = 0;
    size_t at = 0;
    while (size - at >= 5 && data[at] == 0 && size_at(data + at) <= OPEN_RIG_MESSAGE &&
           size_at(data + at) <= size - at - 5) {
        at += 5 + (size_t)size_at(data + at);
        count++;
    }
    *out_whole = at == size;
    return count;
}

static size_t count_answers(const struct base_buffer *answers)
{
    bool whole = false;
    size_t count = count_messages(answers->data, answers->size, &whole);
    base_check(whole);
    return count;
}

static void feed(struct open_rig *open, struct base_prng *draw, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && !open->exchange.finished;) {
        size_t piece = 1 + base_prng_below(draw, base_prng_below(draw, 2) == 0 ? 7 : 4096);
        size_t used = open_rig_write(open, data + at, piece < size - at ? piece : size - at);
        at += used;
        if (used == 0 || base_prng_below(draw, 4) == 0) {
            (void)rig_pump(&world.rig);
            (void)open_rig_read(open, 1 + base_prng_below(draw, 300));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct open_rig open;
    struct base_prng draw;
    bool whole = false;
    if (size < 2) {
        return 0;
    }
    if (!world.made) {
        make();
    }
    base_prng_seed(&draw, (uint64_t)data[0] << 8 | data[1]);
    bool leaves = data[1] % 8 == 0;
    data += 2;
    size -= 2;
    size_t asked = count_messages(data, size, &whole);
    base_check(open_rig_start(&open, &world.rig, ""));
    feed(&open, &draw, data, size);
    if (!open.exchange.finished && leaves) {
        open_rig_leave(&open, &world.rig);
    } else {
        if (!open.exchange.finished) {
            open.calls->input_ended(&open.exchange.exchange);
        }
        open_rig_drain(&open, &world.rig);
        base_check(count_answers(&open.answers) == asked);
        base_check(base_str_equal(open_rig_status(&open), BASE_STR("0")) == whole);
        base_check(open.held[GW_OPEN_INPUT] == 0 && open.held[GW_OPEN_ANSWER] == 0);
    }
    open_rig_done(&open);
    return 0;
}
