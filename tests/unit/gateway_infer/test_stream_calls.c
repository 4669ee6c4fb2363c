// Calls over one stream, without sockets: answers in order whatever the pieces are, no more calls
// than may be unread, streams that end and peers that leave at every point, and no memory at every
// place in turn.
#include "failing_heap.h"
#include "infer_kit.h"
#include "open_rig.h"

#include "base/alloc.h"
#include "infer/codec/pb_out.h"
#include "infer/grpc/infer_stream.h"

struct world {
    struct rig rig;
    struct infer_kit kit;
    struct gw_infer_service *service;
    struct base_arena arena; // of messages
};

static void begin(struct world *world)
{
    struct base_error error = {0};
    memset(world, 0, sizeof(*world));
    infer_kit_begin(&world->kit);
    infer_kit_add(&world->kit, "m", "1", NULL);
    const struct gw_infer_options options = {.models_dir = world->kit.dir, .threads = 2};
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
    base_arena_init(&world->arena, base_alloc_heap(), 0, 0);
    rig_init(&world->rig);
    rig_start(&world->rig);
    gw_infer_install(world->rig.core, world->service, GW_METRICS_OPEN);
}

static void end(struct world *world)
{
    rig_done(&world->rig);
    gw_infer_service_free(world->service);
    base_arena_done(&world->arena);
    infer_kit_end(&world->kit);
}

// A framed call of `rows` rows with the id.
static struct base_str call_of(struct world *world, const char *model, uint32_t rows,
                               const char *id)
{
    const int64_t shape[2] = {rows, 3};
    struct gw_pb_out out;
    struct base_str frame;
    gw_pb_out_init(&out, &world->arena, 0);
    gw_pb_text(&out, 1, base_str_of(model));
    gw_pb_text(&out, 3, base_str_of(id));
    size_t mark = gw_pb_begin(&out, 5);
    gw_pb_text(&out, 1, BASE_STR("x"));
    gw_pb_text(&out, 2, BASE_STR("FP32"));
    gw_pb_packed(&out, 3, shape, 2);
    gw_pb_end(&out, mark);
    uint8_t *raw = gw_pb_bytes(&out, 7, rows * 3 * sizeof(float));
    memset(raw, 0, rows * 3 * sizeof(float));
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    return frame;
}

static void write_all(struct open_rig *open, struct world *world, struct base_str bytes,
                      size_t piece)
{
    for (size_t at = 0; at < bytes.size && !open->exchange.finished;) {
        size_t left = bytes.size - at;
        at += open_rig_write(open, bytes.data + at, piece < left ? piece : left);
        (void)rig_pump(&world->rig);
    }
}

static void end_input(struct open_rig *open)
{
    if (!open->exchange.finished) {
        open->calls->input_ended(&open->exchange.exchange);
    }
}

static void expect_status(const struct open_rig *open, const char *status)
{
    struct base_str is = open_rig_status(open);
    if (!base_str_equal(is, base_str_of(status))) {
        fail_msg("grpc-status is %.*s, wanted %s", (int)is.size, is.data, status);
    }
}

// How many answers there are, and whether their ids count up from '0' with model or error.
static size_t check_answers(const struct open_rig *open, bool in_order)
{
    const uint8_t *at = open->answers.data;
    const uint8_t *stop = at + open->answers.size;
    size_t count = 0;
    while (at < stop) {
        size_t size = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        const uint8_t id[] = {3 << 3 | 2, 1, (uint8_t)('0' + count)};
        assert_true(size <= (size_t)(stop - at) - 5);
        assert_true(!in_order || memmem(at + 5, size, id, sizeof(id)) != NULL);
        at += 5 + size;
        count++;
    }
    return count;
}

static void test_order_whatever_the_pieces_are(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    static const size_t pieces[] = {1, 2, 5, 63, SIZE_MAX};
    for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
        struct open_rig open;
        assert_true(open_rig_start(&open, &world.rig, ""));
        for (int number = 0; number < 9; number++) {
            char id[2] = {(char)('0' + number), '\0'};
            // Every third one is refused; a large one is read by another thread.
            write_all(&open, &world,
                      call_of(&world, number % 3 == 0 ? "none" : "m", number == 4 ? 6000 : 1, id),
                      pieces[i]);
        }
        end_input(&open);
        open_rig_drain(&open, &world.rig);
        expect_status(&open, "0");
        assert_int_equal(check_answers(&open, true), 9);
        assert_int_equal(open.consumed, open.given);
        assert_int_equal(open.held[GW_OPEN_INPUT], 0);
        assert_int_equal(open.held[GW_OPEN_ANSWER], 0);
        open_rig_done(&open);
    }
    end(&world);
}

// A peer that reads nothing: what it sends beyond so many calls stays in its window.
static void test_unread_answers_stop_the_input(void **state)
{
    struct world world;
    struct open_rig open;
    size_t written = 0;
    size_t used = 0;
    (void)state;
    begin(&world);
    struct base_str frame = call_of(&world, "m", 1, "7");
    assert_true(open_rig_start(&open, &world.rig, ""));
    do {
        used = open_rig_write(&open, frame.data + written % frame.size,
                              frame.size - written % frame.size);
        written += used;
        (void)rig_pump(&world.rig);
    } while (used > 0);
    assert_int_equal(open.consumed, GW_INFER_STREAM_CALLS_MAX * frame.size);
    assert_int_equal(open.given - open.consumed, OPEN_RIG_WINDOW);
    // Now it reads, and goes on to the end of a message.
    while (written % frame.size != 0) {
        if (open_rig_read(&open, 100) == 0) {
            (void)rig_pump(&world.rig);
        }
        written += open_rig_write(&open, frame.data + written % frame.size,
                                  frame.size - written % frame.size);
    }
    end_input(&open);
    open_rig_drain(&open, &world.rig);
    expect_status(&open, "0");
    assert_int_equal(check_answers(&open, false), written / frame.size);
    open_rig_done(&open);
    end(&world);
}

// A framed call of a tensor of `count` zeros, each of them one byte on its way and eight once read.
static struct base_str typed_call(struct world *world, uint32_t count)
{
    const int64_t shape = count;
    struct gw_pb_out out;
    struct base_str frame;
    gw_pb_out_init(&out, &world->arena, 0);
    gw_pb_text(&out, 1, BASE_STR("m"));
    gw_pb_text(&out, 3, BASE_STR("0"));
    size_t mark = gw_pb_begin(&out, 5);
    gw_pb_text(&out, 1, BASE_STR("x"));
    gw_pb_text(&out, 2, BASE_STR("INT64"));
    gw_pb_packed(&out, 3, &shape, 1);
    size_t contents = gw_pb_begin(&out, 5);
    memset(gw_pb_bytes(&out, 3, count), 0, count);
    gw_pb_end(&out, contents);
    gw_pb_end(&out, mark);
    assert_int_equal(gw_pb_out_frame(&out, &frame), BASE_OK);
    return frame;
}

static void test_typed_contents_count_as_what_they_take(void **state)
{
    struct world world;
    struct open_rig open;
    (void)state;
    begin(&world);
    const uint32_t count = 90000; // so many are read by another thread
    struct base_str frame = typed_call(&world, count);
    const size_t held = frame.size - GW_PB_FRAME_BYTES + 8 * count - GW_INFER_STREAM_FREE_BYTES;
    for (int room = 0; room < 2; room++) {
        assert_true(open_rig_start(&open, &world.rig, ""));
        open.hold_max = held - 1 + (size_t)room;
        for (size_t at = 0; at < frame.size;) {
            at += open_rig_write(&open, frame.data + at, frame.size - at);
        }
        assert_int_equal(open.held[GW_OPEN_INPUT], room == 0 ? 0 : held); // it is under way
        end_input(&open);
        open_rig_drain(&open, &world.rig);
        expect_status(&open, "0");
        assert_int_equal(check_answers(&open, true), 1);
        const char *says = room == 0 ? "too much of messages" : "INT64";
        assert_non_null(memmem(open.answers.data, open.answers.size, says, strlen(says)));
        assert_int_equal(open.held[GW_OPEN_INPUT], 0);
        open_rig_done(&open);
    }
    end(&world);
}

// What waits for its reader is told by its bytes, less what was taken.
static void test_what_waits_is_told(void **state)
{
    struct world world;
    struct open_rig open;
    struct gw_open_look look = {0};
    (void)state;
    begin(&world);
    struct base_str frame = call_of(&world, "m", 500, "0");
    assert_true(open_rig_start(&open, &world.rig, ""));
    open.calls->look(&open.exchange.exchange, &look);
    assert_int_equal(look.unread_bytes, 0);
    write_all(&open, &world, frame, SIZE_MAX);
    write_all(&open, &world, frame, SIZE_MAX);
    size_t before = 0;
    while (look.unread_bytes <= 12000) { // both
        look = (struct gw_open_look){0};
        open.calls->look(&open.exchange.exchange, &look);
        before = look.unread_bytes;
        if (!rig_pump(&world.rig)) {
            usleep(20);
        }
    }
    assert_int_equal(open_rig_read(&open, 1000), 1000);
    look = (struct gw_open_look){0};
    open.calls->look(&open.exchange.exchange, &look);
    assert_int_equal(look.unread_bytes, before - 1000);
    end_input(&open);
    open_rig_drain(&open, &world.rig);
    assert_int_equal(open.answers.size, before);
    open_rig_done(&open);
    end(&world);
}

static void test_how_streams_end(void **state)
{
    struct world world;
    struct open_rig open;
    (void)state;
    begin(&world);
    struct base_str small = call_of(&world, "m", 1, "0");
    struct base_str large = call_of(&world, "m", 8000, "0");

    assert_false(open_rig_start(&open, &world.rig, "soon"));
    expect_status(&open, "3");
    open_rig_done(&open);

    assert_true(open_rig_start(&open, &world.rig, "1n")); // over before anything came
    write_all(&open, &world, small, SIZE_MAX);
    open_rig_drain(&open, &world.rig);
    expect_status(&open, "4");
    assert_int_equal(check_answers(&open, true), 1);
    open_rig_done(&open);

    assert_true(open_rig_start(&open, &world.rig, "")); // no room for what a message holds
    open.hold_max = 0;
    write_all(&open, &world, large, SIZE_MAX);
    open_rig_drain(&open, &world.rig);
    expect_status(&open, "8");
    open_rig_done(&open);

    assert_true(open_rig_start(&open, &world.rig, "")); // nor for its answer, which is refused
    write_all(&open, &world, (struct base_str){large.data, large.size - 1}, SIZE_MAX);
    open.hold_max = 0;
    write_all(&open, &world, (struct base_str){large.data + large.size - 1, 1}, 1);
    end_input(&open);
    open_rig_drain(&open, &world.rig);
    expect_status(&open, "0");
    assert_int_equal(check_answers(&open, true), 1);
    assert_non_null(memmem(open.answers.data, open.answers.size, "too many answers", 16));
    open_rig_done(&open);

    assert_true(open_rig_start(&open, &world.rig, "")); // what was asked before is answered
    write_all(&open, &world, small, SIZE_MAX);
    open.calls->drain(&open.exchange.exchange);
    open_rig_drain(&open, &world.rig);
    expect_status(&open, "14");
    assert_int_equal(check_answers(&open, true), 1);
    open_rig_done(&open);
    end(&world);
}

static void test_peers_that_leave(void **state)
{
    struct world world;
    (void)state;
    begin(&world);
    struct base_str small = call_of(&world, "m", 1, "0");
    struct base_str large = call_of(&world, "m", 6000, "1");
    for (size_t at = 0; at < small.size + large.size; at += at < small.size ? 7 : 4801) {
        struct open_rig open;
        assert_true(open_rig_start(&open, &world.rig, ""));
        (void)open_rig_write(&open, small.data, at < small.size ? at : small.size);
        for (size_t done = small.size; done < at;) {
            done += open_rig_write(&open, large.data + done - small.size, at - done);
        }
        open_rig_leave(&open, &world.rig);
        open_rig_done(&open);
    }
    end(&world);
}

// Whether an allocation failed.
static bool streamed_with(struct world *world, struct base_str frames, size_t allowed)
{
    struct open_rig open;
    failing_heap_arm(allowed, false);
    bool began = open_rig_start(&open, &world->rig, "");
    open.failing = true;
    if (began) {
        write_all(&open, world, frames, 3000);
        end_input(&open);
        open_rig_drain(&open, &world->rig);
    }
    bool failed = failing_heap_has_failed();
    (void)failing_heap_disarm();
    struct base_str status = open_rig_status(&open);
    assert_true(base_str_equal(status, BASE_STR("0")) ||
                (failed && (base_str_equal(status, BASE_STR("14")) ||
                            base_str_equal(status, BASE_STR("13")))));
    open_rig_done(&open);
    return failed;
}

static void test_no_memory(void **state)
{
    struct world world;
    size_t allowed = 0;
    (void)state;
    begin(&world);
    const struct base_str frames[] = {call_of(&world, "m", 1, "0"), call_of(&world, "m", 500, "1"),
                                      call_of(&world, "none", 1, "2")};
    struct base_buffer all;
    base_buffer_init(&all, base_alloc_heap(), 0);
    for (size_t i = 0; i < TEST_COUNT(frames); i++) {
        assert_int_equal(base_buffer_add(&all, frames[i].data, frames[i].size), BASE_OK);
    }
    const struct base_str whole = {(const char *)all.data, all.size};
    (void)streamed_with(&world, whole, SIZE_MAX); // what is kept is there
    long live = failing_heap_live();
    while (streamed_with(&world, whole, allowed)) {
        assert_int_equal(failing_heap_live(), live);
        allowed++;
    }
    assert_true(allowed >= 10);
    base_buffer_done(&all);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_whatever_the_pieces_are),
        cmocka_unit_test(test_unread_answers_stop_the_input),
        cmocka_unit_test(test_typed_contents_count_as_what_they_take),
        cmocka_unit_test(test_what_waits_is_told),
        cmocka_unit_test(test_how_streams_end),
        cmocka_unit_test(test_peers_that_leave),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
