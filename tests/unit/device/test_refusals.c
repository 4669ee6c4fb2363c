// The memory of what a device refused: which mark goes when there is no room, what a mark's bits
// are, what lifts them, and the stored form.
#include "test_kit.h"

#include "core/base/refusals.h"
#include "wire/profile.h"

#define TASKS 2u
#define ROOM  (TASKS * DEV_REFUSED_PER_TASK)

static uint64_t memory[DEV_REFUSED_MAX];
static struct dev_refusals refusals;

static int setup(void **state)
{
    (void)state;
    dev_refusals_init(&refusals, memory, TASKS);
    return 0;
}

// The marks that stand, in their order; their number.
static uint32_t list(uint64_t out[DEV_REFUSED_MAX])
{
    uint8_t bytes[DEV_REFUSED_MAX * 8];
    struct base_writer writer;
    struct base_reader reader;
    uint64_t digest = 0;
    uint64_t expected = 0;
    base_writer_init(&writer, bytes, sizeof(bytes));
    uint32_t count = dev_refusals_list(&refusals, &writer, &digest);
    assert_int_equal(writer.status, BASE_OK);
    assert_int_equal(base_writer_size(&writer), count * 8);
    base_reader_init(&reader, bytes, base_writer_size(&writer));
    for (uint32_t i = 0; i < count; i++) {
        out[i] = base_reader_u64(&reader);
        expected += wire_profile_refused_term(out[i]);
    }
    assert_true(digest == expected);
    return count;
}

static void refuse(uint64_t mark, enum dev_refusal refusal)
{
    assert_false(dev_refusals_before(&refusals, mark));
    assert_int_equal(dev_refusals_stand(&refusals, mark, refusal), refusal != DEV_REFUSAL_PASSES);
}

static void room_follows_the_tasks(void **state)
{
    (void)state;
    assert_int_equal(dev_refusals_room(1), DEV_REFUSED_PER_TASK);
    assert_int_equal(dev_refusals_room(TASKS), ROOM);
    assert_int_equal(dev_refusals_room(DEV_REFUSED_MAX / DEV_REFUSED_PER_TASK), DEV_REFUSED_MAX);
    assert_int_equal(dev_refusals_room(64), DEV_REFUSED_MAX);
}

static void the_oldest_goes(void **state)
{
    uint64_t marks[DEV_REFUSED_MAX];
    (void)state;
    for (uint64_t mark = 1; mark <= ROOM; mark++) {
        refuse(mark, DEV_REFUSAL_STANDS);
    }
    assert_int_equal(list(marks), ROOM);
    for (uint32_t i = 0; i < ROOM; i++) {
        assert_true(marks[i] == ROOM - i); // newest first
    }
    assert_true(dev_refusals_before(&refusals, 1)); // being asked for makes none newer
    refuse(100, DEV_REFUSAL_STANDS);
    assert_false(dev_refusals_knows(&refusals, 1));
    assert_true(dev_refusals_knows(&refusals, 2));
    assert_int_equal(refusals.count, ROOM);
    assert_int_equal(list(marks), ROOM);
    assert_true(marks[0] == 100 && marks[1] == ROOM && marks[ROOM - 1] == 2);
    refuse(1, DEV_REFUSAL_STANDS); // and may be told once more
    assert_false(dev_refusals_knows(&refusals, 2));
}

// A mark's bits move with it, whatever comes before it, and end with it.
static void bits_belong_to_their_marks(void **state)
{
    uint64_t marks[DEV_REFUSED_MAX];
    (void)state;
    refuse(1, DEV_REFUSAL_STANDS);
    refuse(2, DEV_REFUSAL_PASSES);
    refuse(3, DEV_REFUSAL_UNTIL_TASKS);
    refuse(4, DEV_REFUSAL_PASSES);
    assert_int_equal(list(marks), 2);
    assert_true(marks[0] == 3 && marks[1] == 1);
    assert_true(dev_refusals_stands(&refusals, 1) && dev_refusals_stands(&refusals, 3));
    assert_false(dev_refusals_stands(&refusals, 2) || dev_refusals_stands(&refusals, 5));
    for (uint64_t mark = 10; mark < 10 + ROOM - 2; mark++) {
        refuse(mark, DEV_REFUSAL_PASSES);
    }
    assert_int_equal(list(marks), 1); // 1 and 2 are gone
    assert_true(marks[0] == 3);
    refuse(50, DEV_REFUSAL_PASSES);
    refuse(51, DEV_REFUSAL_PASSES);
    assert_int_equal(list(marks), 0);
    assert_int_equal(refusals.until_tasks, 0);
}

static void what_stands_already_is_no_news(void **state)
{
    (void)state;
    refuse(1, DEV_REFUSAL_UNTIL_TASKS);
    assert_false(dev_refusals_stand(&refusals, 1, DEV_REFUSAL_UNTIL_TASKS));
    assert_false(dev_refusals_stand(&refusals, 1, DEV_REFUSAL_PASSES));
    assert_true(dev_refusals_stands(&refusals, 1));
    assert_false(dev_refusals_stand(&refusals, 2, DEV_REFUSAL_STANDS)); // was never noted
    // For good from now on: other tasks change nothing.
    assert_false(dev_refusals_stand(&refusals, 1, DEV_REFUSAL_STANDS));
    (void)dev_refusals_tasks(&refusals, 7);
    assert_true(dev_refusals_stands(&refusals, 1));
}

static void tasks_and_settings_lift(void **state)
{
    (void)state;
    assert_false(dev_refusals_settings(&refusals, 1) || dev_refusals_tasks(&refusals, 1));
    refuse(1, DEV_REFUSAL_STANDS);
    refuse(2, DEV_REFUSAL_UNTIL_TASKS);
    assert_false(dev_refusals_tasks(&refusals, 1));
    assert_false(dev_refusals_settings(&refusals, 1));
    assert_true(dev_refusals_stands(&refusals, 2));
    assert_true(dev_refusals_tasks(&refusals, 2));
    assert_true(dev_refusals_stands(&refusals, 1) && !dev_refusals_stands(&refusals, 2));
    assert_false(dev_refusals_tasks(&refusals, 3)); // nothing more to lift
    assert_true(dev_refusals_stand(&refusals, 2, DEV_REFUSAL_UNTIL_TASKS));
    assert_true(dev_refusals_settings(&refusals, 2));
    assert_false(dev_refusals_stands(&refusals, 1) || dev_refusals_stands(&refusals, 2));
    assert_int_equal(refusals.until_tasks, 0);
    assert_false(dev_refusals_settings(&refusals, 3));
    // What was reported stays reported.
    assert_true(dev_refusals_before(&refusals, 1) && dev_refusals_before(&refusals, 2));
}

static void one_is_lifted(void **state)
{
    (void)state;
    refuse(1, DEV_REFUSAL_UNTIL_TASKS);
    refuse(2, DEV_REFUSAL_STANDS);
    assert_true(dev_refusals_lift(&refusals, 1));
    assert_false(dev_refusals_lift(&refusals, 1));
    assert_false(dev_refusals_lift(&refusals, 3));
    assert_true(dev_refusals_stands(&refusals, 2) && !dev_refusals_stands(&refusals, 1));
    assert_int_equal(refusals.until_tasks, 0);
    dev_refusals_clear(&refusals);
    assert_false(dev_refusals_knows(&refusals, 1) || dev_refusals_knows(&refusals, 2));
    assert_int_equal(refusals.capacity, ROOM);
}

// ---- The record

static size_t written(uint8_t out[DEV_REFUSALS_BYTES_MAX])
{
    struct base_writer writer;
    base_writer_init(&writer, out, DEV_REFUSALS_BYTES_MAX);
    dev_refusals_write(&refusals, &writer);
    assert_int_equal(writer.status, BASE_OK);
    return base_writer_size(&writer);
}

static enum base_status read_back(const uint8_t *bytes, size_t size)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    dev_refusals_read(&refusals, &reader);
    return base_reader_finish(&reader);
}

static void a_record_is_read_as_written(void **state)
{
    uint8_t bytes[DEV_REFUSALS_BYTES_MAX];
    uint8_t again[DEV_REFUSALS_BYTES_MAX];
    uint64_t marks[DEV_REFUSED_MAX];
    (void)state;
    (void)dev_refusals_settings(&refusals, 5);
    (void)dev_refusals_tasks(&refusals, 6);
    refuse(1, DEV_REFUSAL_STANDS);
    refuse(2, DEV_REFUSAL_PASSES);
    refuse(3, DEV_REFUSAL_UNTIL_TASKS);
    size_t size = written(bytes);
    dev_refusals_init(&refusals, memory, TASKS);
    assert_int_equal(read_back(bytes, size), BASE_OK);
    assert_int_equal(written(again), size);
    assert_memory_equal(bytes, again, size);
    assert_int_equal(list(marks), 2);
    assert_true(marks[0] == 3 && marks[1] == 1);
    assert_true(dev_refusals_before(&refusals, 2));
    assert_false(dev_refusals_settings(&refusals, 5)); // known: nothing is lifted
    assert_false(dev_refusals_tasks(&refusals, 6));
    assert_true(dev_refusals_tasks(&refusals, 7));
    assert_false(dev_refusals_stands(&refusals, 3));
}

// A device that holds fewer tasks now keeps the newest.
static void a_smaller_device_keeps_the_newest(void **state)
{
    uint8_t bytes[DEV_REFUSALS_BYTES_MAX];
    uint64_t marks[DEV_REFUSED_MAX];
    (void)state;
    for (uint64_t mark = 1; mark <= ROOM; mark++) {
        refuse(mark, mark % 2 == 0 ? DEV_REFUSAL_UNTIL_TASKS : DEV_REFUSAL_STANDS);
    }
    size_t size = written(bytes);
    dev_refusals_init(&refusals, memory, 1);
    assert_int_equal(read_back(bytes, size), BASE_OK);
    assert_int_equal(list(marks), DEV_REFUSED_PER_TASK);
    assert_true(marks[0] == ROOM && marks[3] == ROOM - 3);
    assert_int_equal(refusals.standing, 15);
    assert_int_equal(refusals.until_tasks, 5);
    refuse(100, DEV_REFUSAL_STANDS);
    assert_int_equal(list(marks), DEV_REFUSED_PER_TASK);
}

static void records_that_fit_nothing(void **state)
{
    uint8_t bytes[DEV_REFUSALS_BYTES_MAX];
    (void)state;
    refuse(1, DEV_REFUSAL_STANDS);
    refuse(2, DEV_REFUSAL_UNTIL_TASKS);
    size_t size = written(bytes);
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, DEV_REFUSED_MAX + 1}, {1, 7}, {4, 0x80}, {5, 7}, {8, 1}};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        uint8_t before = bytes[wrong[i].at];
        bytes[wrong[i].at] = wrong[i].value;
        dev_refusals_init(&refusals, memory, TASKS);
        assert_int_not_equal(read_back(bytes, size), BASE_OK);
        bytes[wrong[i].at] = before;
    }
    bytes[1] = 1; // the second stands no more, and is said to stand until the tasks change
    bytes[5] = 2;
    dev_refusals_init(&refusals, memory, TASKS);
    assert_int_not_equal(read_back(bytes, size), BASE_OK);
}

static void a_record_of_before(void **state)
{
    uint8_t bytes[DEV_REFUSED_BEFORE * 8];
    struct base_writer writer;
    struct base_reader reader;
    uint64_t marks[DEV_REFUSED_MAX];
    (void)state;
    refuse(77, DEV_REFUSAL_STANDS);
    base_writer_init(&writer, bytes, sizeof(bytes));
    for (uint64_t i = 0; i < DEV_REFUSED_BEFORE; i++) {
        base_writer_u64(&writer, i % 2 == 0 ? 10 + i : 0);
    }
    base_reader_init(&reader, bytes, sizeof(bytes));
    dev_refusals_read_before(&refusals, &reader);
    assert_int_equal(base_reader_finish(&reader), BASE_OK);
    assert_int_equal(refusals.count, 2);
    assert_true(dev_refusals_knows(&refusals, 10) && dev_refusals_knows(&refusals, 12));
    assert_false(dev_refusals_knows(&refusals, 77) || dev_refusals_knows(&refusals, 0));
    assert_int_equal(list(marks), 0); // of none is known whether it stands
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(room_follows_the_tasks),      CASE(the_oldest_goes),
        CASE(bits_belong_to_their_marks),  CASE(what_stands_already_is_no_news),
        CASE(tasks_and_settings_lift),     CASE(one_is_lifted),
        CASE(a_record_is_read_as_written), CASE(a_smaller_device_keeps_the_newest),
        CASE(records_that_fit_nothing),    CASE(a_record_of_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
