// The posix port end to end: a real HTTP/2 gateway stand-in over TLS on loopback, a real folder,
// and the real script VM; every case twice, on the worker thread and in task processes.
#include "device_rig.h"
#include "h2_test_server.h"
#include "nn_models.h"

#include "base/clock.h"
#include "posix/posix_port.h"
#include "vm/vm.h"
#include "wire/report.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TASK         "demo/score"
#define LONG_RUN_MS  600000u
#define TIMEOUTS_MAX 5u

struct world {
    struct rig rig; // versions and keys
    struct event_base *base;
    struct h2t_server *server;
    struct posix_port *port;
    char dir[64];
    uint8_t offers[4096];
    size_t offers_bytes;
    int close_bodies; // so many blob answers are cut in the middle
    int goaways;
    bool offer_in_header;
    uint32_t blob_requests;
    uint32_t range_requests;
    uint32_t reports;
    uint32_t outcomes[32];
    int results;
    enum wire_outcome_kind last_outcome;
    char last_text[200];
    bool idle;
};

static struct world world;
static const char *runner_path; // of task processes; NULL: the worker thread

static uint8_t *compile(const char *source, size_t *out_size)
{
    uint8_t *mpy = NULL;
    struct base_error error = {0};
    if (dev_vm_compile(base_str_of(source), BASE_STR("main.py"), &mpy, out_size, &error) !=
        BASE_OK) {
        fail_msg("%s", error.text);
    }
    return mpy;
}

static uint32_t every_s; // of versions added from now on

static uint32_t version_add(const char *source, size_t data_bytes)
{
    size_t size = 0;
    uint8_t *mpy = compile(source, &size);
    world.rig.script = mpy;
    world.rig.script_bytes = size;
    uint32_t index = rig_version_add(&world.rig, TASK, 2, data_bytes, WIRE_RUNTIME_ABI, every_s);
    free(mpy);
    return index;
}

static void offer(uint32_t version, uint64_t counter)
{
    struct rig_statement statement = {
        .task = TASK, .version = version, .counter = counter, .rollout_id = counter};
    static struct wire_offers offers;
    static struct rig_envelope envelope;
    world.rig.port.clock.wall_us = base_clock_wall_us();
    rig_sign(&world.rig, &statement, &envelope);
    offers = (struct wire_offers){.count = 1};
    offers.items[0].envelope = envelope.bytes;
    offers.items[0].envelope_bytes = envelope.size;
    assert_int_equal(
        wire_offers_encode(&offers, world.offers, sizeof(world.offers), &world.offers_bytes),
        BASE_OK);
}

static void serve_report(const struct h2t_request *request, struct h2t_reply *reply)
{
    static struct wire_report report;
    if (wire_report_parse(request->body, request->body_bytes, &report) != BASE_OK) {
        reply->status = 400;
        return;
    }
    world.reports++;
    for (uint32_t i = 0; i < report.count; i++) {
        world.outcomes[report.outcomes[i].kind]++;
    }
    reply->status = 204;
    reply->declared_bytes = UINT64_MAX;
    if (world.offer_in_header) {
        static char text[4096];
        text[base_b64_encode(world.offers, world.offers_bytes, text)] = '\0';
        reply->header_names[0] = "walle-offer";
        reply->header_values[0] = text;
        reply->header_count = 1;
    }
}

static void serve_blob(const struct h2t_request *request, struct h2t_reply *reply)
{
    static char range[80];
    struct base_str hex = {request->path.data + 9, request->path.size - 9};
    const uint8_t *bytes = NULL;
    size_t size = 0;
    world.blob_requests++;
    world.range_requests += request->has_range ? 1 : 0;
    if (!rig_content(&world.rig, hex, &bytes, &size)) {
        reply->status = 404;
        return;
    }
    size_t from = request->has_range ? (size_t)request->range_from : 0;
    reply->status = request->has_range ? 206 : 200;
    reply->body = bytes + from;
    reply->body_bytes = size - from;
    if (request->has_range) {
        snprintf(range, sizeof(range), "bytes %zu-%zu/%zu", from, size - 1, size);
        reply->header_names[0] = "content-range";
        reply->header_values[0] = range;
        reply->header_count = 1;
    }
    if (world.close_bodies > 0 && reply->body_bytes > 10000) {
        world.close_bodies--;
        reply->act = H2T_CLOSE;
        reply->declared_bytes = reply->body_bytes;
        reply->body_bytes /= 2;
    } else if (world.goaways > 0) {
        world.goaways--;
        reply->act = H2T_GOAWAY;
    }
}

static void handle(void *ctx, const struct h2t_request *request, struct h2t_reply *reply)
{
    (void)ctx;
    if (base_str_equal(request->path, BASE_STR("/v1/checkin"))) {
        reply->status = world.offers_bytes > 0 && !world.offer_in_header ? 200 : 204;
        reply->body = world.offers;
        reply->body_bytes = reply->status == 200 ? world.offers_bytes : 0;
    } else if (base_str_equal(request->path, BASE_STR("/v1/report"))) {
        serve_report(request, reply);
    } else if (base_str_starts(request->path, BASE_STR("/v1/blob/")) &&
               request->path.size == 9 + WIRE_SHA256_HEX) {
        serve_blob(request, reply);
    } else {
        reply->status = 404; // also for all of a version at once
    }
}

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    (void)app;
    assert_true(base_str_equal(task, BASE_STR(TASK)));
    struct base_str text = end->outcome == WIRE_OUTCOME_RAN ? end->result : end->detail;
    size_t size = text.size < sizeof(world.last_text) - 1 ? text.size : sizeof(world.last_text) - 1;
    memcpy(world.last_text, text.data, size);
    world.last_text[size] = '\0';
    world.last_outcome = end->outcome;
    world.results++;
}

static void on_tick(void *app, struct dev_runtime *runtime)
{
    (void)app;
    struct dev_stats stats;
    dev_stats(runtime, &stats);
    world.idle = stats.checkins > 0 && dev_is_idle(runtime);
    if (world.idle) {
        event_base_loopbreak(world.base);
    }
}

static struct posix_options options_make(void)
{
    struct posix_options options = {
        .dir = world.dir,
        .host = BASE_STR("127.0.0.1"),
        .port = h2t_server_port(world.server),
        .tls = true,
        .ca_pem_path = h2t_server_ca_path(world.server),
        .config = world.rig.config,
        .runner_path = runner_path,
        .on_result = on_result,
        .on_tick = on_tick,
    };
    options.config.backoff_base_ms = 1;
    options.config.backoff_cap_ms = 20;
    return options;
}

static void device_start(void)
{
    struct base_error error = {0};
    struct posix_options options = options_make();
    world.idle = false;
    if (posix_port_new(world.base, &options, &world.port, &error) != BASE_OK) {
        fail_msg("%s", error.text);
    }
}

static void run_until_idle(void)
{
    world.idle = false;
    while (!world.idle) {
        assert_int_equal(event_base_loop(world.base, EVLOOP_ONCE), 0);
    }
}

static void device_run(void)
{
    device_start();
    run_until_idle();
}

static void device_stop(void)
{
    posix_port_free(world.port);
    world.port = NULL;
}

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    rig_init(&world.rig);
    world.base = event_base_new();
    struct h2t_options options = {.tls = true, .handle = handle};
    world.server = h2t_server_new(world.base, &options);
    strncpy(world.dir, "/tmp/walle-posix-XXXXXX", sizeof(world.dir) - 1);
    assert_non_null(mkdtemp(world.dir));
    return 0;
}

static void folder_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL;
         entry = readdir(dir)) {
        char inner[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0) {
            folder_remove(inner);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    (void)rmdir(path);
}

static int teardown(void **state)
{
    (void)state;
    posix_port_free(world.port);
    h2t_server_free(world.server);
    event_base_free(world.base);
    rig_done(&world.rig);
    folder_remove(world.dir);
    return 0;
}

static struct wire_sha256 active(void)
{
    struct dev_task_view view = {0};
    assert_int_equal(dev_task_view(posix_port_runtime(world.port), 0, &view), BASE_OK);
    return view.active;
}

static void test_install_run_report_restart(void **state)
{
    (void)state;
    uint32_t version = version_add("import walle\nwalle.result({'sum': 40 + 2})\n", 50000);
    offer(version, 1);
    device_run();
    assert_int_equal(world.results, 1);
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_RAN);
    assert_non_null(strstr(world.last_text, "42"));
    assert_int_equal(world.outcomes[WIRE_OUTCOME_RAN], 1);
    assert_int_equal(world.outcomes[WIRE_OUTCOME_ACTIVATED], 1);
    struct wire_sha256 digest = active();
    assert_true(wire_sha256_equal(&digest, &world.rig.versions[version].manifest));
    device_stop();
    uint32_t requests = world.blob_requests;
    device_run();
    digest = active();
    assert_true(wire_sha256_equal(&digest, &world.rig.versions[version].manifest));
    assert_int_equal(world.blob_requests, requests);
    assert_int_equal(world.results, 1);
}

static void test_exception_comes_back(void **state)
{
    (void)state;
    uint32_t version = version_add("def f(x):\n    return 1 // x\nf(0)\n", 100);
    offer(version, 1);
    device_run();
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_non_null(strstr(world.last_text, "ZeroDivisionError"));
    assert_non_null(strstr(world.last_text, "main.py:2"));
    assert_int_equal(world.outcomes[WIRE_OUTCOME_FAIL_EXCEPTION], 1);
    assert_int_equal(world.outcomes[WIRE_OUTCOME_ROLLED_BACK], 1);
}

static void test_cut_connection_resumes_by_range(void **state)
{
    (void)state;
    uint32_t version = version_add("import walle\nwalle.result(1)\n", 180000);
    world.close_bodies = 3;
    offer(version, 1);
    device_run();
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_RAN);
    assert_true(world.range_requests >= 1);
    assert_true(h2t_server_connections(world.server) >= 4);
    struct dev_stats stats;
    dev_stats(posix_port_runtime(world.port), &stats);
    assert_true(stats.resumed_bytes > 0);
}

static void test_goaway_moves_to_a_new_connection(void **state)
{
    (void)state;
    uint32_t version = version_add("import walle\nwalle.result(1)\n", 20000);
    world.goaways = 2;
    offer(version, 1);
    device_run();
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_RAN);
    assert_int_equal(h2t_server_connections(world.server), 3);
}

static void test_offer_header_is_followed(void **state)
{
    (void)state;
    uint32_t first = version_add("import walle\nwalle.result(1)\n", 100);
    uint32_t second = version_add("import walle\nwalle.result(2)\n", 200);
    offer(first, 1);
    device_start();
    while (world.results == 0) {
        assert_int_equal(event_base_loop(world.base, EVLOOP_ONCE), 0);
    }
    offer(second, 2);
    world.offer_in_header = true; // the answer to the report brings the next version
    run_until_idle();
    struct wire_sha256 digest = active();
    assert_true(wire_sha256_equal(&digest, &world.rig.versions[second].manifest));
}

// A run that no budget ends while a test looks.
static void long_runs(struct rig *rig, uint32_t index, struct wire_manifest *manifest)
{
    (void)rig;
    (void)index;
    manifest->time_ms = LONG_RUN_MS;
}

// Starts the device and stops it in the middle of the run of what it is offered, or just before.
static void run_is_stopped(void)
{
    int results = world.results;
    struct dev_stats stats = {0};
    device_start();
    while (stats.activations == 0) {
        assert_int_equal(event_base_loop(world.base, EVLOOP_ONCE), 0);
        dev_stats(posix_port_runtime(world.port), &stats);
    }
    device_stop();
    assert_int_equal(world.results, results);
}

static void test_endless_run_is_stopped_with_the_port(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *mpy = compile("while True:\n    pass\n", &size);
    world.rig.script = mpy;
    world.rig.script_bytes = size;
    uint32_t version = rig_version_add(&world.rig, TASK, 1, 0, WIRE_RUNTIME_ABI, 0);
    world.rig.version_extra = long_runs;
    uint32_t longer = rig_version_add(&world.rig, TASK, 1, 0, WIRE_RUNTIME_ABI, 0);
    free(mpy);
    offer(version, 1);
    device_run(); // the time budget ends it
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_FAIL_TIMEOUT);
    device_stop();
    offer(longer, 2);
    run_is_stopped();
}

// A child that has not begun its program yet, of an agent that was killed, has the lock until then.
static void test_the_folder_of_who_was_just_killed(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct posix_options options = options_make();
    char path[512];
    int told[2];
    char byte = 0;
    device_run(); // makes the folder
    device_stop();
    (void)snprintf(path, sizeof(path), "%s/lock", options.dir);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        const struct timespec a_while = {.tv_nsec = 100000000};
        int failed = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0;
        failed = write(told[1], "x", 1) != 1 || failed;
        (void)nanosleep(&a_while, NULL);
        _exit(failed);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    struct posix_port *port = NULL;
    assert_int_equal(posix_port_new(world.base, &options, &port, &error), BASE_OK);
    posix_port_free(port);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(told[0]);
    (void)close(told[1]);
}

static void test_one_process_per_folder(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct posix_options options = options_make();
    struct posix_port *second = NULL;
    device_run();
    assert_int_equal(posix_port_new(world.base, &options, &second, &error), BASE_ERR_BUSY);
    assert_non_null(strstr(error.text, "another process"));
    device_stop();
    options.ca_pem_path = "/nonexistent.pem";
    assert_int_equal(posix_port_new(world.base, &options, &second, &error), BASE_ERR_INVALID);
    options = options_make();
    options.dir = "/proc/nowhere";
    assert_true(posix_port_new(world.base, &options, &second, &error) != BASE_OK);
    options = options_make();
    options.config.tasks_max = 1000;
    assert_int_equal(posix_port_new(world.base, &options, &second, &error), BASE_ERR_INVALID);
}

static uint32_t model_version_add(const char *source, struct nn_model *model)
{
    world.rig.model = model->bytes;
    world.rig.model_bytes = model->size;
    uint32_t version = version_add(source, 0);
    world.rig.model = NULL;
    return version;
}

static void test_a_script_runs_its_model(void **state)
{
    (void)state;
    static struct nn_model model;
    nn_add_relu(&model, 0);
    for (uint64_t counter = 1; counter < 3; counter++) { // the second version finds it loaded
        char source[200];
        snprintf(source, sizeof(source),
                 "import walle\nfrom walle import nn\n"
                 "m = nn.load('model.bin')\nwalle.result([%u] + m([[1, 1, 1]])[0].tolist())\n",
                 (unsigned)counter);
        offer(model_version_add(source, &model), counter);
        if (counter == 1) {
            device_run();
        } else {
            device_stop();
            device_run();
        }
        assert_int_equal(world.results, counter);
        assert_int_equal(world.last_outcome, WIRE_OUTCOME_RAN);
        assert_string_equal(world.last_text, counter == 1 ? "[1,2.0,0.0,4.0]" : "[2,2.0,0.0,4.0]");
    }
}

static void test_a_damaged_model_is_the_scripts_error(void **state)
{
    (void)state;
    static struct nn_model model;
    nn_add_relu(&model, 0);
    model.size -= 20;
    offer(model_version_add("from walle import nn\n\nnn.load('model.bin')\n", &model), 1);
    device_run();
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_non_null(strstr(world.last_text, "ValueError: model.bin: "));
    assert_non_null(strstr(world.last_text, "main.py:3"));
}

// Between characters, and it says so.
static void test_a_long_message_is_cut(void **state)
{
    (void)state;
    offer(version_add("raise ValueError('x' + '\xe2\x82\xac' * 50)\n", 100), 1);
    device_run();
    assert_int_equal(world.last_outcome, WIRE_OUTCOME_FAIL_EXCEPTION);
    assert_non_null(strstr(world.last_text, "\xe2\x82\xac... (main.py:1)"));
}

// One byte of a sealed file, in place.
static void file_damage(const struct wire_sha256 *name)
{
    char path[200];
    char hex[WIRE_SHA256_HEX + 1];
    uint8_t byte = 0;
    wire_sha256_hex(name, hex);
    snprintf(path, sizeof(path), "%s/blobs/%s", world.dir, hex);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 20), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 20), 1);
    close(fd);
}

static void expect_mended(const struct rig_version *version)
{
    uint8_t bytes[4096];
    for (uint32_t i = 0; i < version->file_count; i++) {
        char path[200];
        char hex[WIRE_SHA256_HEX + 1];
        wire_sha256_hex(&version->files[i].digest, hex);
        snprintf(path, sizeof(path), "%s/blobs/%s", world.dir, hex);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(read(fd, bytes, sizeof(bytes)), (ssize_t)version->files[i].size);
        assert_memory_equal(bytes, version->files[i].bytes, version->files[i].size);
        close(fd);
    }
}

// Between two runs of one agent: the next run finds it, of a script, of a model that is mapped, and
// of the manifest; while nothing runs the check at the next start does.
static void test_damaged_files_are_mended_and_not_run(void **state)
{
    (void)state;
    static struct nn_model model;
    nn_add_relu(&model, 0);
    every_s = 1;
    offer(model_version_add("import walle\nfrom walle import nn\nm = nn.load('model.bin')\n"
                            "walle.result(m([[1, 1, 1]])[0].tolist())\n",
                            &model),
          1);
    every_s = 0;
    const struct rig_version *version = &world.rig.versions[world.rig.version_count - 1];
    device_run();
    const struct wire_sha256 *names[] = {&version->files[0].digest, &version->manifest,
                                         &version->files[1].digest};
    for (uint32_t i = 0; i < 3; i++) {
        int results = world.results;
        file_damage(names[i]);
        if (i == 2) { // a new agent, which has no copy of the model
            device_stop();
            device_start();
        }
        while (world.results == results || world.last_outcome != WIRE_OUTCOME_RAN) {
            assert_int_equal(event_base_loop(world.base, EVLOOP_ONCE), 0);
            assert_true(world.last_outcome == WIRE_OUTCOME_RAN ||
                        world.last_outcome == WIRE_OUTCOME_FAIL_INTEGRITY);
        }
        assert_string_equal(world.last_text, "[2.0,0.0,4.0]");
        run_until_idle();
        expect_mended(version);
        assert_int_equal(world.outcomes[WIRE_OUTCOME_FAIL_INTEGRITY], i + 1);
    }
    struct wire_sha256 digest = active();
    assert_true(wire_sha256_equal(&digest, &version->manifest));
    assert_int_equal(world.outcomes[WIRE_OUTCOME_ROLLED_BACK], 0);
}

static void test_a_model_at_work_is_stopped_with_the_port(void **state)
{
    (void)state;
    static struct nn_model chain;
    static const char source[] = "from walle import nn\nm = nn.load('model.bin')\n"
                                 "x = nn.tensor(bytes(4 * 90 * 90), (90, 90))\n"
                                 "while True: m(x)\n";
    nn_chain(&chain, 1000);
    uint32_t version = model_version_add(source, &chain);
    // The time budget ends it, within the model. A task's process that the machine gives no time
    // for so long cannot say where it was: then once more.
    uint64_t counter = 0;
    do {
        offer(version, ++counter);
        device_run();
        assert_int_equal(world.last_outcome, WIRE_OUTCOME_FAIL_TIMEOUT);
        device_stop();
    } while (counter < TIMEOUTS_MAX && strstr(world.last_text, "main.py:4") == NULL);
    if (strstr(world.last_text, "main.py:4") == NULL) {
        fail_msg("'%s'", world.last_text);
    }
    world.rig.version_extra = long_runs;
    offer(model_version_add(source, &chain), counter + 1);
    run_is_stopped();
}

static void state_damage(const char *name)
{
    char path[200];
    static const char damage[100] = "this is no record";
    snprintf(path, sizeof(path), "%s/state/%s", world.dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, damage, sizeof(damage), 0), (ssize_t)sizeof(damage));
    close(fd);
}

// One of the two records is enough to go on; without both the gateway brings everything again.
static void test_damaged_state_is_set_aside(void **state)
{
    (void)state;
    static const char *const names[] = {"even", "odd"};
    char path[200];
    struct stat info;
    uint32_t version = version_add("import walle\nwalle.result(1)\n", 100);
    offer(version, 1);
    device_run();
    device_stop();
    uint32_t requests = world.blob_requests;
    for (int i = 0; i < 2; i++) {
        state_damage(names[i]);
        device_run();
        struct wire_sha256 digest = active();
        assert_true(wire_sha256_equal(&digest, &world.rig.versions[version].manifest));
        device_stop();
        snprintf(path, sizeof(path), "%s/state.damaged", world.dir);
        assert_int_equal(stat(path, &info), 0);
    }
    assert_int_equal(world.blob_requests, requests);
    int results = world.results;
    state_damage(names[0]);
    state_damage(names[1]);
    device_run(); // starts anew, takes the version again
    assert_int_equal(world.results, results + 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_install_run_report_restart),
        CASE(test_exception_comes_back),
        CASE(test_cut_connection_resumes_by_range),
        CASE(test_goaway_moves_to_a_new_connection),
        CASE(test_offer_header_is_followed),
        CASE(test_endless_run_is_stopped_with_the_port),
        CASE(test_the_folder_of_who_was_just_killed),
        CASE(test_one_process_per_folder),
        CASE(test_damaged_state_is_set_aside),
        CASE(test_a_script_runs_its_model),
        CASE(test_a_model_at_work_is_stopped_with_the_port),
        CASE(test_a_damaged_model_is_the_scripts_error),
        CASE(test_a_long_message_is_cut),
        CASE(test_damaged_files_are_mended_and_not_run),
    };
    int failed = cmocka_run_group_tests_name("thread", tests, NULL, NULL);
    runner_path = WALLE_TASK_RUNNER;
    return failed + cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
