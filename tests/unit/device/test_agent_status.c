// What a stored record says, field by field: as dev_record_* give it, and as `walle-device
// --status` writes it, for programs and for people.
#include "orders_kit.h"

#include "core/device_state.h"
#include "core/trust/trust_parts.h"
#include "agent/agent_status.h"
#include "device/state_record.h"
#include "posix/store/posix_state.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEFORE_S UINT64_C(1700000000) // 2023-11-14T22:13:20Z
#define LATER_S  UINT64_C(4102444800) // 2100-01-01T00:00:00Z

static char folder[64];
static uint64_t generation; // of the record there

// A device that has version 1, kept version 0 and refuses a third one; or has version 1 on trial.
static void live(bool on_trial)
{
    role_rig_init(&roles, 0);
    for (uint32_t i = 0; i < 2; i++) {
        rig_version_add(rig, TASK, 1, 100 * (i + 1), WIRE_RUNTIME_ABI, 0);
    }
    rig_boot(rig);
    install(0);
    rig->hold_runs = on_trial;
    install(1);
    struct dev_runtime *runtime = rig->runtime;
    struct dev_task *task = &runtime->tasks[0];
    assert_int_equal(task->runs.running, on_trial);
    task->slots.floor = 1;
    task->offer.newest.counter = on_trial ? task->offer.newest.counter : COUNTER(2);
    task->slots.blocked = on_trial ? 0 : 0xb10c;
    task->runs.last_s = BEFORE_S;
    task->runs.count = 7;
    task->runs.crashes = on_trial ? 2 : 0;
    task->lease.held = true;
    task->lease.until_s = on_trial ? LATER_S : BEFORE_S;
    runtime->told_interval_s = 77;
    runtime->sweep->past_count = 1;
    runtime->sweep->past[0] =
        (struct dev_past){.task_id = 0xabcdef, .floor = 5, .newest = {.counter = 6}};
    (void)dev_refusals_before(&runtime->refusals, 0x1234);
    (void)dev_refusals_before(&runtime->refusals, 0x5678);
    (void)dev_refusals_stand(&runtime->refusals, 0x1234, DEV_REFUSAL_STANDS);
}

static size_t record_of(uint8_t bytes[DEV_STATE_BYTES_MAX])
{
    size_t size = 0;
    assert_int_equal(dev_state_encode(rig->runtime, bytes, DEV_STATE_BYTES_MAX, &size), BASE_OK);
    return size;
}

// ---- The record

static void tasks_equal(const struct dev_record_task *got, const struct dev_task *task)
{
    assert_true(base_str_equal(got->name, BASE_STR(TASK)));
    assert_string_equal(got->state,
                        dev_update_state_name((enum dev_update_state)task->slots.state));
    assert_true(wire_sha256_equal(&got->active, &rig->versions[1].manifest));
    assert_true(wire_sha256_equal(&got->kept, &rig->versions[0].manifest));
    assert_true(wire_sha256_equal(&got->accepted, &task->offer.accepted));
    assert_int_equal(got->active_counter, COUNTER(1));
    assert_int_equal(got->newest_counter, task->offer.newest.counter);
    assert_int_equal(got->floor, 1);
    assert_int_equal(got->blocked, task->slots.blocked);
    assert_int_equal(got->lease_until_s, task->lease.until_s);
    assert_int_equal(got->last_run_s, BEFORE_S);
    assert_int_equal(got->runs, 7);
    assert_int_equal(got->crashes, task->runs.crashes);
    assert_int_equal(got->running, task->runs.running);
    assert_false(got->shadow);
}

static void lists_equal(const struct dev_runtime *record)
{
    uint64_t id = 0;
    uint64_t floor = 0;
    bool stands = true;
    assert_int_equal(dev_record_refusal(record, 0, &id, &stands), BASE_OK);
    assert_int_equal(id, 0x5678);
    assert_false(stands);
    assert_int_equal(dev_record_refusal(record, 1, &id, &stands), BASE_OK);
    assert_int_equal(id, 0x1234);
    assert_true(stands);
    assert_int_equal(dev_record_refusal(record, 2, &id, &stands), BASE_ERR_NOT_FOUND);
    assert_int_equal(dev_record_stopped(record, 0, &id, &floor), BASE_OK);
    assert_int_equal(id, 0xabcdef);
    assert_int_equal(floor, 5);
    assert_int_equal(dev_record_stopped(record, 1, &id, &floor), BASE_ERR_NOT_FOUND);
}

static void view_equal(const struct dev_runtime *record)
{
    const struct dev_runtime *runtime = rig->runtime;
    struct dev_record_view view;
    dev_record_view(record, &view);
    assert_int_equal(view.tasks, 1);
    assert_int_equal(view.stopped, 1);
    assert_int_equal(view.refusals, 2);
    assert_int_equal(view.outcomes, runtime->outcomes.count);
    assert_int_equal(view.interval_s, 77);
    assert_true(view.root_version == runtime->trust->root_version && view.root_version > 0);
    assert_true(view.timestamp_version == runtime->trust->timestamp_version);
    assert_true(view.timestamp_expires_s == runtime->trust->timestamp_expires_s);
    assert_true(view.timestamp_version > 0 && view.timestamp_expires_s > 0);
}

static void test_each_field_of_a_record(void **state)
{
    (void)state;
    for (int on_trial = 0; on_trial < 2; on_trial++) {
        static uint8_t bytes[DEV_STATE_BYTES_MAX];
        const struct dev_config config = {.device_id = 1, .tasks_max = DEV_TASKS_MAX};
        struct dev_runtime *record = NULL;
        struct dev_record_task task;
        live(on_trial != 0);
        const struct base_span span = {bytes, record_of(bytes)};
        size_t room = dev_runtime_bytes(&config);
        void *memory = aligned_alloc(16, (room + 15) / 16 * 16);
        assert_int_equal(dev_record_open(memory, room, &config, &span, &record), BASE_OK);
        view_equal(record);
        assert_int_equal(dev_record_task(record, 0, &task), BASE_OK);
        tasks_equal(&task, &rig->runtime->tasks[0]);
        assert_int_equal(dev_record_task(record, 1, &task), BASE_ERR_NOT_FOUND);
        lists_equal(record);
        rig->runtime->tasks[0].lease.held = false; // the time that is left there is none's
        const struct base_span free_span = {bytes, record_of(bytes)};
        assert_int_equal(dev_record_open(memory, room, &config, &free_span, &record), BASE_OK);
        assert_int_equal(dev_record_task(record, 0, &task), BASE_OK);
        assert_int_equal(task.lease_until_s, 0);
        bytes[10] ^= 1;
        assert_int_equal(dev_record_open(memory, room, &config, &free_span, &record),
                         BASE_ERR_CORRUPT);
        free(memory);
        role_rig_done(&roles);
    }
}

// ---- The page

static void content_write(const struct rig_version *version, bool damaged)
{
    char hex[WIRE_SHA256_HEX + 1];
    char path[256];
    wire_sha256_hex(&version->manifest, hex);
    (void)snprintf(path, sizeof(path), "%s/blobs/%s", folder, hex);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(version->bytes, 1, version->size - damaged, file),
                     version->size - damaged);
    assert_int_equal(fclose(file), 0);
}

// The folder of that device: the record, the manifest it runs, and a damaged one that it kept.
static void folder_make(void)
{
    static struct posix_state records;
    static uint8_t bytes[DEV_STATE_BYTES_MAX];
    char path[128];
    (void)snprintf(folder, sizeof(folder), "/tmp/walle-status-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/blobs", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    content_write(&rig->versions[1], false);
    content_write(&rig->versions[0], true);
    int device = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(device >= 0);
    assert_int_equal(posix_state_open(&records, device, folder, NULL), BASE_OK);
    size_t size = record_of(bytes);
    assert_int_equal(posix_state_save(&records, bytes, size), BASE_OK);
    assert_int_equal(posix_state_save(&records, bytes, size), BASE_OK);
    generation = records.generation;
    posix_state_close(&records);
    assert_int_equal(close(device), 0);
}

static void folder_remove(void)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static char *page_of(bool json)
{
    struct base_error error = {.status = BASE_OK};
    char *page = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&page, &size);
    assert_non_null(file);
    if (agent_status_print(folder, json, file, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(fclose(file), 0);
    return page;
}

static void says(const json_t *object, const char *key, const char *want)
{
    const json_t *item = json_object_get(object, key);
    const char *text = json_string_value(item);
    if (want == NULL ? !json_is_null(item) : text == NULL || strcmp(text, want) != 0) {
        fail_msg("%s: '%s', not '%s'", key, text != NULL ? text : "-", want);
    }
}

static void counts(const json_t *object, const char *key, uint64_t want)
{
    const json_t *item = json_object_get(object, key);
    if (!json_is_integer(item) || (uint64_t)json_integer_value(item) != want) {
        fail_msg("%s: %lld, not %llu", key, (long long)json_integer_value(item),
                 (unsigned long long)want);
    }
}

static void names(const json_t *object, const char *key, const struct wire_sha256 *want)
{
    char hex[WIRE_SHA256_HEX + 1];
    wire_sha256_hex(want, hex);
    says(object, key, hex);
}

static void task_says(const json_t *one, bool on_trial)
{
    const struct dev_task *task = &rig->runtime->tasks[0];
    char id[WIRE_DEVICE_HEX + 1];
    wire_device_hex(task->slots.blocked, id);
    says(one, "task", TASK);
    says(one, "state", on_trial ? "on trial" : "settled");
    assert_true(json_is_false(json_object_get(one, "shadow")));
    names(one, "active", &rig->versions[1].manifest);
    says(one, "active_version", "1.0.0");
    names(one, "previous", &rig->versions[0].manifest);
    says(one, "previous_version", NULL); // damaged, so it says nothing
    names(one, "accepted", &task->offer.accepted);
    says(one, "accepted_version", "1.0.0");
    counts(one, "release_counter", COUNTER(1));
    counts(one, "newest_counter", on_trial ? COUNTER(1) : COUNTER(2));
    counts(one, "floor", 1);
    says(one, "lease_until", on_trial ? "2100-01-01T00:00:00Z" : "2023-11-14T22:13:20Z");
    json_int_t left = json_integer_value(json_object_get(one, "lease_left_s"));
    assert_true(on_trial ? left > 0 : left < 0);
    says(one, "refused_version_id", on_trial ? NULL : id);
    says(one, "last_run", "2023-11-14T22:13:20Z");
    counts(one, "runs", 7);
    counts(one, "crashes", on_trial ? 2 : 0);
    assert_int_equal(json_is_true(json_object_get(one, "running")), on_trial);
}

static void json_says(bool on_trial)
{
    const struct dev_runtime *runtime = rig->runtime;
    char *page = page_of(true);
    json_t *root = json_loads(page, 0, NULL);
    assert_non_null(root);
    says(root, "dir", folder);
    says(root, "device", NULL);
    assert_true(json_is_false(json_object_get(root, "agent_runs")));
    counts(root, "record", generation);
    counts(root, "root_version", runtime->trust->root_version);
    counts(root, "timestamp_version", runtime->trust->timestamp_version);
    assert_true(json_is_string(json_object_get(root, "timestamp_expires")));
    counts(root, "checkin_interval_s", 77);
    counts(root, "outcomes_waiting", runtime->outcomes.count);
    const json_t *tasks = json_object_get(root, "tasks");
    const json_t *refusals = json_object_get(root, "refusals");
    const json_t *stopped = json_object_get(root, "stopped");
    assert_int_equal(json_array_size(tasks), 1);
    assert_int_equal(json_array_size(refusals), 2);
    assert_int_equal(json_array_size(stopped), 1);
    task_says(json_array_get(tasks, 0), on_trial);
    says(json_array_get(refusals, 0), "mark", "0000000000005678");
    assert_true(json_is_false(json_object_get(json_array_get(refusals, 0), "stands")));
    says(json_array_get(refusals, 1), "mark", "0000000000001234");
    assert_true(json_is_true(json_object_get(json_array_get(refusals, 1), "stands")));
    says(json_array_get(stopped, 0), "task_id", "0000000000abcdef");
    counts(json_array_get(stopped, 0), "floor", 5);
    json_decref(root);
    free(page);
}

static void text_says(bool on_trial)
{
    static const char *const always[] = {
        "device without a credential in /tmp/walle-status-",
        ": no agent runs\nrecord ",
        "  active   1.0.0 ",
        "  previous ? ",
        "refused an offer (mark 0000000000005678)\n",
        "refused an offer, and gateways are told (mark 0000000000001234)\n",
        "stopped a task: nothing below release 5 comes back (task id 0000000000abcdef)\n",
    };
    static const char *const settled[] = {
        "task " TASK ": settled\n",
        "  release  2, the highest 3, floor 1\n",
        "  runs     7, the last 2023-11-14T22:13:20Z\n",
        "  lease    ran out 2023-11-14T22:13:20Z, ",
        " s ago\n",
        ", which failed here (version id 000000000000b10c)\n",
    };
    static const char *const trial[] = {
        "task " TASK ": on trial\n",
        "  release  2, the highest 2, floor 1\n",
        "  runs     7, the last 2023-11-14T22:13:20Z, one is under way\n",
        "  crashes  2 on trial\n",
        "  lease    until 2100-01-01T00:00:00Z, ",
        " s from now\n",
    };
    _Static_assert(sizeof(settled) == sizeof(trial), "as many lines");
    char *page = page_of(false);
    const size_t lines = sizeof(trial) / sizeof(trial[0]);
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]) + 2 * lines; i++) {
        bool mine = i < lines ? on_trial : i >= 2 * lines || !on_trial;
        const char *line = i < lines       ? trial[i]
                           : i < 2 * lines ? settled[i - lines]
                                           : always[i - 2 * lines];
        if ((strstr(page, line) != NULL) != mine && strcmp(line, " s ago\n") != 0) {
            fail_msg("'%s' %s in\n%s", line, mine ? "is not" : "is", page);
        }
    }
    free(page);
}

static void test_each_field_of_the_page(void **state)
{
    (void)state;
    for (int on_trial = 0; on_trial < 2; on_trial++) {
        live(on_trial != 0);
        folder_make();
        json_says(on_trial != 0);
        text_says(on_trial != 0);
        folder_remove();
        role_rig_done(&roles);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_field_of_a_record),
        cmocka_unit_test(test_each_field_of_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
