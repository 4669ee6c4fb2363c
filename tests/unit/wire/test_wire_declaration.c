// Declarations of a version to the data pipeline: layout, limits, damage.
#include "wire_damage.h"
#include "wire_samples.h"

#include "wire/declaration.h"
#include "wire/tunnel_frame.h"

static struct wire_declaration sample(void)
{
    return (struct wire_declaration){
        .trigger_count = 2,
        .triggers = {BASE_STR("enter(item) * exit(item) page"), BASE_STR("click(*, \"buy\")")},
        .events = WIRE_EVENTS_VISIT,
        .events_max = 200,
        .attribute_count = 2,
        .attributes = {BASE_STR("depth"), BASE_STR("price")},
        .upload_count = 2,
        .uploads = {{.name = BASE_STR("ipv"),
                     .class_id = 1,
                     .schema_version = 3,
                     .schema = BASE_STR("{\"item\":\"string\"}")},
                    {.name = BASE_STR("raw-2"), .class_id = 2}},
        .result_upload = 0,
    };
}

static enum base_status encode(const struct wire_declaration *declaration)
{
    static uint8_t bytes[WIRE_DECLARATION_BYTES_MAX];
    size_t size = 0;
    return wire_declaration_encode(declaration, bytes, sizeof bytes, &size);
}

static void comes_back_as_it_went(void **state)
{
    (void)state;
    struct wire_declaration declaration = sample();
    uint8_t bytes[1024];
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof bytes, &size), BASE_OK);
    struct wire_declaration back;
    assert_int_equal(wire_declaration_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.trigger_count, 2);
    assert_true(base_str_equal(back.triggers[1], declaration.triggers[1]));
    assert_int_equal(back.events, WIRE_EVENTS_VISIT);
    assert_int_equal(back.events_max, 200);
    assert_true(base_str_equal(back.attributes[1], BASE_STR("price")));
    const struct wire_upload *upload = wire_declaration_upload(&back, BASE_STR("ipv"));
    assert_non_null(upload);
    assert_int_equal(upload->class_id, 1);
    assert_int_equal(upload->schema_version, 3);
    assert_true(base_str_equal(upload->schema, declaration.uploads[0].schema));
    assert_null(wire_declaration_upload(&back, BASE_STR("ip")));
    assert_int_equal(wire_declaration_encode(&declaration, bytes, size - 1, &size),
                     BASE_ERR_TOO_LARGE);
}

// What is said of runs is said at the end; without it the bytes are those from before.
static void runs_beside_others(void **state)
{
    (void)state;
    struct wire_declaration declaration = sample();
    struct wire_declaration back;
    uint8_t plain[1024];
    uint8_t bytes[1024];
    size_t plain_size = 0;
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, plain, sizeof plain, &plain_size),
                     BASE_OK);
    assert_int_equal(plain[0], WIRE_DECLARATION_VERSION);
    declaration.runs = (struct wire_declared_runs){.priority = 1, .deadline_ms = 500, .at_once = 2};
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(bytes[0], WIRE_DECLARATION_RUNS);
    assert_int_equal(size, plain_size + 3 + 1 + 2 + 1); // no leaves, no store; the three
    assert_memory_equal(bytes + 1, plain + 1, plain_size - 1);
    assert_int_equal(wire_declaration_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.runs.priority, 1);
    assert_int_equal(back.runs.deadline_ms, 500);
    assert_int_equal(back.runs.at_once, 2);
    assert_int_equal(back.leaves.size, 0);
    assert_int_equal(back.store_kib, 0);
    bytes[size - 4] = 0; // nothing is said: then the version has another number
    bytes[size - 3] = 0;
    bytes[size - 2] = 0;
    assert_int_equal(wire_declaration_parse(bytes, size - 1, &back), BASE_ERR_INVALID);
    bytes[0] = WIRE_DECLARATION_RUNS + 1;
    assert_int_equal(wire_declaration_parse(bytes, size, &back), BASE_ERR_UNSUPPORTED);
    declaration.runs.at_once = 0;
    declaration.store_kib = 7;
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_declaration_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.store_kib, 7);
    assert_int_equal(back.runs.deadline_ms, 500);
}

struct rule {
    const char *what;
    void (*change)(struct wire_declaration *declaration);
    enum base_status status;
};

static void empty_pattern(struct wire_declaration *d)
{
    d->triggers[0].size = 0;
}
static void control_in_pattern(struct wire_declaration *d)
{
    d->triggers[0] = BASE_STR("a\nb");
}
static void no_such_events(struct wire_declaration *d)
{
    d->events = WIRE_EVENTS_END;
}
static void time_without_span(struct wire_declaration *d)
{
    d->events = WIRE_EVENTS_TIME;
}
static void span_without_time(struct wire_declaration *d)
{
    d->events_s = 1;
}
static void too_many_events(struct wire_declaration *d)
{
    d->events_max = WIRE_DECLARATION_EVENTS_MAX + 1;
}
static void attributes_unsorted(struct wire_declaration *d)
{
    d->attributes[1] = BASE_STR("a");
}
static void attributes_doubled(struct wire_declaration *d)
{
    d->attributes[1] = BASE_STR("depth");
}
static void all_and_one(struct wire_declaration *d)
{
    d->attributes[0] = BASE_STR("*");
}
static void bad_upload_name(struct wire_declaration *d)
{
    d->uploads[0].name = BASE_STR("Ipv");
}
static void doubled_upload(struct wire_declaration *d)
{
    d->uploads[1].name = BASE_STR("ipv");
}
static void no_such_class(struct wire_declaration *d)
{
    d->uploads[0].class_id = WIRE_TUNNEL_CLASSES;
}
static void no_such_upload(struct wire_declaration *d)
{
    d->result_upload = 2;
}
static void too_many_triggers(struct wire_declaration *d)
{
    d->trigger_count = WIRE_DECLARATION_TRIGGERS_MAX + 1;
}

static void no_such_priority(struct wire_declaration *d)
{
    d->runs.priority = WIRE_RUN_PRIORITY_MAX + 2;
}
static void too_late_a_deadline(struct wire_declaration *d)
{
    d->runs.deadline_ms = WIRE_RUN_DEADLINE_MS_MAX + 1;
}
static void one_at_once_said(struct wire_declaration *d)
{
    d->runs.at_once = 1; // 0 stands for it
}
static void too_many_at_once(struct wire_declaration *d)
{
    d->runs.at_once = WIRE_RUN_AT_ONCE_MAX + 1;
}
static void two_with_a_store(struct wire_declaration *d)
{
    d->runs.at_once = 2;
    d->store_kib = 1;
}

static void rules_hold(void **state)
{
    (void)state;
    static const struct rule rules[] = {
        {"empty pattern", empty_pattern, BASE_ERR_INVALID},
        {"control character in a pattern", control_in_pattern, BASE_ERR_INVALID},
        {"no such selection of events", no_such_events, BASE_ERR_INVALID},
        {"time without a span", time_without_span, BASE_ERR_INVALID},
        {"a span without time", span_without_time, BASE_ERR_INVALID},
        {"too many events", too_many_events, BASE_ERR_TOO_LARGE},
        {"attributes out of order", attributes_unsorted, BASE_ERR_INVALID},
        {"an attribute twice", attributes_doubled, BASE_ERR_INVALID},
        {"all attributes and one more", all_and_one, BASE_ERR_INVALID},
        {"name of an upload", bad_upload_name, BASE_ERR_INVALID},
        {"an upload twice", doubled_upload, BASE_ERR_INVALID},
        {"no such class", no_such_class, BASE_ERR_INVALID},
        {"result goes nowhere", no_such_upload, BASE_ERR_INVALID},
        {"too many triggers", too_many_triggers, BASE_ERR_TOO_LARGE},
        {"no such priority", no_such_priority, BASE_ERR_INVALID},
        {"a deadline too late", too_late_a_deadline, BASE_ERR_INVALID},
        {"one at once, said", one_at_once_said, BASE_ERR_INVALID},
        {"too many at once", too_many_at_once, BASE_ERR_INVALID},
        {"two at once with a store", two_with_a_store, BASE_ERR_INVALID},
    };
    struct wire_declaration right = sample();
    assert_int_equal(encode(&right), BASE_OK);
    for (size_t i = 0; i < TEST_COUNT(rules); i++) {
        struct wire_declaration wrong = sample();
        rules[i].change(&wrong);
        print_message("%s\n", rules[i].what);
        assert_int_equal(encode(&wrong), rules[i].status);
    }
}

static void nothing_declared_is_short(void **state)
{
    (void)state;
    struct wire_declaration nothing = {.result_upload = WIRE_DECLARATION_NO_UPLOAD};
    uint8_t bytes[16];
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&nothing, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, 8);
    assert_int_equal(wire_check_declaration(bytes, size), BASE_OK);
}

static void damage_is_refused_or_read(void **state)
{
    (void)state;
    struct wire_declaration declaration = sample();
    uint8_t bytes[1024];
    size_t size = 0;
    assert_int_equal(wire_declaration_encode(&declaration, bytes, sizeof bytes, &size), BASE_OK);
    struct base_prng prng;
    test_seed(&prng);
    wire_damage(&prng, bytes, size, wire_check_declaration);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_went),
        cmocka_unit_test(runs_beside_others),
        cmocka_unit_test(rules_hold),
        cmocka_unit_test(nothing_declared_is_short),
        cmocka_unit_test(damage_is_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
