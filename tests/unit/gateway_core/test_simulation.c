// The simulate stage's result as it is stored: what a version before evidence wrote still loads and
// counts, and an override waits for a second person over a restart.
#include "core_rig.h"

#include "svc/rollout/rollout_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TASK       "shop/score"
#define FLAGS_AT   43u // of a row: after version, state, verdict, reason, failure_ppm, three times
#define ROW_NOW    7u
#define ROW_RECENT 6u
#define ROW_MIDDLE 5u // lacks how devices failed, and the cause of an end
#define ROW_BEFORE 4u
#define RESULT     (1 + 5 * 8 + WIRE_SHA256_BYTES + 4) // with empty texts, as in between
#define NEWS       (8 + 1 + 1)
// Behind the cause: numbers that both had, and by how much its time was moved.
#define NUMBERS (4 * 8)
#define MOVED   8

static const struct rig_stage stages[] = {
    {"simulate", POL_STAGE_SIMULATE, 10000, NULL, NULL, 10, 100000, 0},
    {"full", POL_STAGE_FULL, 10000, NULL, NULL, 5, 100000, 0},
};

static void open_rig(struct rig *rig)
{
    struct wire_sha256 manifest;
    struct gw_rollout_view view;
    struct base_error error = {0};
    rig_init(rig);
    rig_start(rig);
    rig_version(rig, TASK, "1.0.0", &manifest);
    assert_int_equal(rig_rollout(rig, 0x11, TASK, &manifest, NULL, NULL, stages, 2, &view, &error),
                     BASE_OK);
    rig_command(rig, 0x11, POL_COMMAND_START, NULL);
}

struct row {
    uint8_t bytes[8192];
    size_t size;
};

static bool take_row(void *ctx, struct base_span key, struct base_span value)
{
    struct row *row = ctx;
    (void)key;
    assert_true(value.size < sizeof(row->bytes));
    memcpy(row->bytes, value.data, value.size);
    row->size = value.size;
    return true;
}

static void read_row(struct rig *rig, struct row *out)
{
    struct gw_store_read *read;
    struct gw_key from = gw_key_u64(0);
    assert_int_equal(gw_store_read_begin(rig->core->store, &read), BASE_OK);
    assert_int_equal(gw_store_read_scan(read, GW_TABLE_ROLLOUTS, &from, take_row, out), BASE_OK);
    gw_store_read_end(read);
}

// The same row as it was written before: one byte and two numbers where the result now is.
static void make_old(const struct row *row, bool has, uint64_t completed, uint64_t failed,
                     struct row *out)
{
    size_t now = 1 + RESULT + NEWS; // from the flags on
    struct base_writer writer;
    assert_int_equal(row->bytes[0], ROW_NOW);
    base_writer_init(&writer, out->bytes, sizeof(out->bytes));
    base_writer_u8(&writer, ROW_BEFORE);
    base_writer_bytes(&writer, row->bytes + 1, FLAGS_AT - 1);
    base_writer_u8(&writer, has);
    base_writer_u64(&writer, completed);
    base_writer_u64(&writer, failed);
    size_t at = FLAGS_AT + now;
    base_writer_bytes(&writer, row->bytes + at, NUMBERS);
    at += NUMBERS + MOVED;
    base_writer_bytes(&writer, row->bytes + at, row->size - at);
    assert_int_equal(writer.status, BASE_OK);
    out->size = base_writer_size(&writer);
}

static void make_middle(const struct row *row, struct row *out)
{
    size_t at = FLAGS_AT + 1 + RESULT;
    *out = *row;
    out->bytes[0] = ROW_MIDDLE;
    memmove(out->bytes + at, out->bytes + at + NEWS, NUMBERS);
    size_t left = row->size - at - NEWS - NUMBERS - MOVED;
    memcpy(out->bytes + at + NUMBERS, row->bytes + row->size - left, left);
    out->size = at + NUMBERS + left;
}

// ... and one that knows the cause, and nothing of a moved time.
static void make_recent(const struct row *row, struct row *out)
{
    size_t at = FLAGS_AT + 1 + RESULT + NEWS + NUMBERS;
    *out = *row;
    out->bytes[0] = ROW_RECENT;
    memmove(out->bytes + at, out->bytes + at + MOVED, row->size - at - MOVED);
    out->size = row->size - MOVED;
}

static void test_rows_from_before(void **state)
{
    (void)state;
    struct rig rig;
    static struct row row;
    static struct row old;
    open_rig(&rig);
    read_row(&rig, &row);
    for (int has = 0; has < 2; has++) {
        struct gw_rollout *rollout = NULL;
        make_old(&row, has != 0, has != 0 ? 50 : 0, has != 0 ? 2 : 0, &old);
        assert_int_equal(gw_rollout_decode(old.bytes, old.size, &rollout, NULL), BASE_OK);
        assert_int_equal(rollout->simulation.source,
                         has != 0 ? GW_SIMULATION_TYPED : GW_SIMULATION_NONE);
        assert_int_equal(rollout->simulation.completed, has != 0 ? 50 : 0);
        assert_int_equal(rollout->simulation.failed, has != 0 ? 2 : 0);
        assert_int_equal(rollout->release->id, 0x11);
        assert_false(rollout->accept_empty);
        gw_release_unref(rollout->release);
        free(rollout);
    }
    struct gw_rollout *middle = NULL;
    make_middle(&row, &old);
    assert_int_equal(gw_rollout_decode(old.bytes, old.size, &middle, NULL), BASE_OK);
    assert_int_equal(middle->cause, POL_REASON_NONE);
    assert_int_equal(middle->simulation.class_count, 0);
    assert_int_equal(middle->release->id, 0x11);
    gw_release_unref(middle->release);
    free(middle);
    make_recent(&row, &old);
    assert_int_equal(gw_rollout_decode(old.bytes, old.size, &middle, NULL), BASE_OK);
    assert_int_equal(middle->moved_s, 0);
    assert_int_equal(middle->release->id, 0x11);
    gw_release_unref(middle->release);
    free(middle);
    make_old(&row, true, 1, 2, &old);
    struct gw_rollout *none = NULL;
    assert_int_equal(gw_rollout_decode(old.bytes, old.size, &none, NULL), BASE_ERR_CORRUPT);
    rig_done(&rig);
}

static void test_an_override_waits(void **state)
{
    (void)state;
    struct rig rig;
    struct gw_rollout_view view;
    struct base_error error = {0};
    const struct gw_rollout_who ana = {.by = BASE_STR("ana"), .comment = BASE_STR("bench")};
    const struct gw_rollout_who bo = {.by = BASE_STR("bo")};
    const struct gw_rollout_who mute = {.by = BASE_STR("ana")};
    open_rig(&rig);
    assert_int_equal(gw_rollout_override(rig.core, 0x11, (struct pol_sample){50, 0}, NULL, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(gw_rollout_override(rig.core, 0x11, (struct pol_sample){50, 0}, &mute, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(gw_rollout_override(rig.core, 0x11, (struct pol_sample){50, 0}, &ana, &error),
                     BASE_OK);
    rig_stop(&rig);
    rig_start(&rig);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 0);
    assert_int_equal(view.simulation.source, GW_SIMULATION_PENDING);
    assert_int_equal(view.stages[0].counts.succeeded, 0);
    assert_int_equal(gw_rollout_command(rig.core, 0x11, POL_COMMAND_APPROVE, &ana, &error),
                     BASE_ERR_CONFLICT);
    assert_int_equal(gw_rollout_command(rig.core, 0x11, POL_COMMAND_APPROVE, &bo, &error), BASE_OK);
    rig_settle(&rig);
    rig_view(&rig, 0x11, &view);
    assert_int_equal(view.stage_index, 1);
    assert_int_equal(view.simulation.source, GW_SIMULATION_OVERRIDE);
    assert_string_equal(view.simulation.approved_by, "bo");
    assert_int_equal(view.stages[0].counts.succeeded, 50);
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_from_before),
        cmocka_unit_test(test_an_override_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
