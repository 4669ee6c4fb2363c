// What a decision costs: the worker of bench/policy_bench.py. One thread.
//
//   policy_worker checkin RELEASES DEVICES MIX   MIX: targeted | everybody
//   policy_worker match MILLISECONDS
//
// checkin: RELEASES tasks, each with a rollout open to a share, are put into the memory of a core
// (its store stays empty: no release is signed, none is offered), and DEVICES devices that have
// what they should check in through gw_core_handle, headers and all, in random order: a first time,
// when nobody was seen before and no cohort is known; then again (steady); then while a rollout
// changes after every 10,000 check-ins (changing). Beside them the same answer by evaluating every
// release for every check-in (linear). Every digest of the sample is compared: "wrong" must be 0.
#include "svc/device/checkin.h"
#include "svc/plan/cohort.h"
#include "svc/rollout/catalog_private.h"
#include "svc/rollout/publish.h"
#include "svc/core_worker.h"

#include "base/alloc.h"
#include "base/prng.h"
#include "policy/bucket.h"
#include "policy/expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS          20000u // distinct attribute blocks
#define BLOCKS_COMMON   100u   // of the mix "everybody"
#define MODELS          500u
#define SEGMENTS        1000u
#define PROFILE_MAX     256u
#define LINEAR_SAMPLE   2000u
#define CHANGE_EVERY    10000u
#define ROUNDS          3u
#define EXPRESSIONS     1000u
#define DEVICES_MATCHED 256u

struct bench {
    struct gw_core *core;
    struct gw_worker *worker;
    struct base_prng prng;
    uint32_t releases;
    uint32_t devices;
    bool everybody;
    uint32_t blocks;
    struct base_str *profiles; // by device
    uint32_t *order;
    uint64_t wrong;
    uint64_t other_answers; // than 204
};

// CPU time of this thread: what others do on the machine is not the decision's cost.
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void must(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "policy_worker: %s\n", what);
        exit(1);
    }
}

static uint64_t bench_mono_us(void *ctx)
{
    struct timespec now;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t bench_wall_us(void *ctx)
{
    return UINT64_C(1790000000000000) + bench_mono_us(ctx);
}

static uint32_t below(struct bench *bench, uint32_t bound)
{
    return (uint32_t)base_prng_below(&bench->prng, bound);
}

// ---- Releases

static void target_of(struct bench *bench, uint32_t i, char *text, size_t capacity)
{
    uint32_t model = below(bench, MODELS);
    uint32_t kind = i % 50;
    if (bench->everybody || kind == 0) {
        (void)snprintf(text, capacity, "%s", i % 100 == 0 ? "" : "app_version >= 3.0");
    } else if (kind < 30) {
        (void)snprintf(text, capacity, "model == \"phone-%u\" && app_version >= 9.2", model);
    } else if (kind < 45) {
        (void)snprintf(text, capacity,
                       "user.segment == \"s%u\" && os in [\"android\", \"ios\"] && ram_mb >= 2048",
                       below(bench, SEGMENTS));
    } else {
        (void)snprintf(text, capacity,
                       "model in [\"phone-%u\", \"phone-%u\"] && !(region == \"r%u\")", model,
                       (model + 1) % MODELS, below(bench, 10));
    }
}

static void compile(struct base_arena *arena, const char *text, struct pol_target *out)
{
    struct pol_text source = {text, (uint32_t)strlen(text)};
    struct pol_expr_error error = {0};
    size_t bytes = 0;
    if (source.size == 0) {
        return;
    }
    must(pol_expr_compile(source, (struct pol_expr_space){NULL, 0}, &out->expr, &bytes, &error),
         error.message);
    void *memory = base_arena_alloc(arena, bytes);
    must(memory != NULL && pol_expr_compile(source, (struct pol_expr_space){memory, bytes},
                                            &out->expr, &bytes, &error),
         "no memory");
}

static struct gw_release *make_release(struct bench *bench, uint32_t i, uint64_t task_id)
{
    char text[256];
    struct gw_release *release = gw_release_blank();
    must(release != NULL, "no memory");
    release->id = 1 + i;
    release->task_id = task_id;
    release->version_id = base_mix64(release->id);
    release->salt = base_mix64(release->id + 1000000);
    release->release_counter = 1;
    release->stage_count = 1;
    release->stages[0].kind = POL_STAGE_GRAY;
    // For everybody at most 1 %: a device has at most 256 tasks.
    release->stages[0].max_bucket = (uint16_t)(1 + below(bench, bench->everybody ? 100 : 5000));
    target_of(bench, i, text, sizeof(text));
    compile(&release->hold->arena, text, &release->target);
    return release;
}

static void make_releases(struct bench *bench)
{
    static struct gw_kept_off nothing;
    struct gw_catalog *catalog = bench->core->catalog;
    catalog->tasks = calloc(bench->releases, sizeof(catalog->tasks[0]));
    catalog->rollouts = calloc(bench->releases, sizeof(catalog->rollouts[0]));
    must(catalog->tasks != NULL && catalog->rollouts != NULL, "no memory");
    uint64_t step = UINT64_MAX / (bench->releases + 1);
    for (uint32_t i = 0; i < bench->releases; i++) {
        struct gw_task *task = calloc(1, sizeof(*task));
        struct gw_rollout *rollout = calloc(1, sizeof(*rollout));
        must(task != NULL && rollout != NULL, "no memory");
        task->task_id = step * (i + 1);
        task->slot = i;
        task->open[0] = rollout;
        task->open_count = 1;
        rollout->task = task;
        rollout->release = make_release(bench, i, task->task_id);
        rollout->kept_off = &nothing;
        rollout->state.state = POL_ROLLOUT_RUNNING;
        catalog->tasks[i] = task;
        catalog->rollouts[i] = rollout;
    }
    catalog->task_count = bench->releases;
    catalog->task_capacity = bench->releases;
    catalog->slot_count = bench->releases;
    catalog->rollout_count = bench->releases;
    catalog->rollout_capacity = bench->releases;
    gw_core_publish(bench->core);
}

// ---- Devices

static uint64_t device_id(uint32_t i)
{
    return base_mix64(i + UINT64_C(77000000));
}

static size_t make_block(uint32_t which, uint8_t *out)
{
    char app[24];
    char model[24];
    char region[8];
    char segment[16];
    uint64_t hash = base_mix64(which);
    (void)snprintf(app, sizeof(app), "%u.%u.0", 8 + (unsigned)(hash % 3),
                   (unsigned)(hash >> 8) % 12);
    (void)snprintf(model, sizeof(model), "phone-%u", (unsigned)(hash >> 16) % MODELS);
    (void)snprintf(region, sizeof(region), "r%u", which % 10);
    (void)snprintf(segment, sizeof(segment), "s%u", (unsigned)(hash >> 32) % SEGMENTS);
    struct wire_attrs attrs = {.count = 6};
    const char *const texts[][2] = {
        {"app_version", app}, {"model", model},          {"os", which % 3 == 0 ? "ios" : "android"},
        {"region", region},   {"user.segment", segment},
    };
    for (uint32_t i = 0; i < 5; i++) {
        attrs.items[i] =
            (struct wire_attr){.name = base_str_of(texts[i][0]), .text = base_str_of(texts[i][1])};
    }
    attrs.items[5] = (struct wire_attr){.name = BASE_STR("ram_mb"),
                                        .type = WIRE_ATTR_INTEGER,
                                        .integer = 1024 * (int64_t)(1 + (hash >> 40) % 8)};
    struct base_writer writer;
    base_writer_init(&writer, out, WIRE_ATTRS_BYTES_MAX);
    wire_attrs_write(&writer, &attrs);
    must(writer.status == BASE_OK, "attributes");
    return base_writer_size(&writer);
}

// The digest by evaluating every release.
static uint64_t linear(const struct bench *bench, uint64_t id, const struct pol_attrs *attrs)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < bench->releases; i++) {
        const struct gw_rollout *rollout = bench->core->catalog->rollouts[i];
        const struct gw_release *release = rollout->release;
        uint32_t mask = pol_target_match(&release->stages[0].audience, attrs).matched;
        bool targeted = pol_target_match(&release->target, attrs).matched;
        if (pol_rollout_admits(&rollout->state, release->stages, 1,
                               (struct pol_candidate){.targeted = targeted,
                                                      .audience_mask = mask,
                                                      .bucket = pol_bucket(id, release->salt)})
                .matched) {
            digest += wire_profile_term(release->task_id, release->version_id, 0);
        }
    }
    return digest;
}

// A device has what its cohort and buckets say, computed with a cache of cohorts of its own.
static void make_devices(struct bench *bench)
{
    static uint8_t blocks[BLOCKS][128];
    static size_t sizes[BLOCKS];
    static char text[PROFILE_MAX * 2];
    struct gw_cohorts *cohorts;
    must(gw_cohorts_new(&(struct base_hash_key){1, 2}, &cohorts) == BASE_OK, "no memory");
    bench->profiles = calloc(bench->devices, sizeof(bench->profiles[0]));
    bench->order = calloc(bench->devices, sizeof(bench->order[0]));
    must(bench->profiles != NULL && bench->order != NULL, "no memory");
    for (uint32_t i = 0; i < bench->blocks; i++) {
        uint8_t block[WIRE_ATTRS_BYTES_MAX];
        sizes[i] = make_block(i, block);
        must(sizes[i] <= sizeof(blocks[i]), "attributes");
        memcpy(blocks[i], block, sizes[i]);
    }
    for (uint32_t i = 0; i < bench->devices; i++) {
        uint32_t which = i % bench->blocks;
        struct gw_cohort *cohort;
        bool created;
        must(gw_cohorts_find(cohorts, bench->core->plan,
                             &(struct gw_cohort_name){0, {blocks[which], sizes[which]}}, &cohort,
                             &created) == BASE_OK,
             "cohort");
        struct wire_profile profile = {.task_count = 20,
                                       .digest = gw_cohort_expected(cohort, device_id(i)),
                                       .attrs = blocks[which],
                                       .attrs_bytes = sizes[which]};
        if (i % (bench->devices / LINEAR_SAMPLE + 1) == 0) {
            struct gw_attrs_view view;
            must(gw_attrs_view(blocks[which], sizes[which], &view) == BASE_OK, "attributes");
            bench->wrong += linear(bench, device_id(i), &view.attrs) != profile.digest;
        }
        uint8_t bytes[PROFILE_MAX];
        size_t size = 0;
        must(wire_profile_encode(&profile, NULL, bytes, sizeof(bytes), &size) == BASE_OK,
             "profile");
        size_t written = base_b64_encode(bytes, size, text);
        char *copy = malloc(written);
        must(copy != NULL, "no memory");
        memcpy(copy, text, written);
        bench->profiles[i] = (struct base_str){copy, written};
        bench->order[i] = i;
    }
    for (uint32_t i = bench->devices - 1; i > 0; i--) {
        uint32_t other = below(bench, i + 1);
        uint32_t swapped = bench->order[i];
        bench->order[i] = bench->order[other];
        bench->order[other] = swapped;
    }
    gw_cohorts_free(cohorts);
}

// ---- Passes

static void finish(struct gw_exchange *exchange)
{
    (void)exchange;
}

static void post(void *ctx, struct gw_message *message)
{
    (void)ctx;
    (void)message;
}

static struct gw_worker *new_worker(struct bench *bench)
{
    struct gw_worker *worker = NULL;
    must(gw_worker_new(bench->core, NULL, post, &worker) == BASE_OK, "worker");
    return worker;
}

static void change_one(struct bench *bench)
{
    struct gw_rollout *rollout = bench->core->catalog->rollouts[below(bench, bench->releases)];
    bool running = rollout->state.state == POL_ROLLOUT_RUNNING;
    rollout->state.state = running ? POL_ROLLOUT_PAUSED : POL_ROLLOUT_RUNNING;
    gw_core_publish(bench->core);
    gw_plan_unref(bench->worker->plan);
    bench->worker->plan = gw_plan_ref(bench->core->plan);
}

// Nanoseconds a check-in.
static double pass(struct bench *bench, bool changing)
{
    struct base_arena arena;
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    uint64_t start_ns = now_ns();
    for (uint32_t n = 0; n < bench->devices; n++) {
        uint32_t i = bench->order[n];
        char hex[WIRE_DEVICE_HEX + 1];
        wire_device_hex(device_id(i), hex);
        struct gw_exchange exchange = {.arena = &arena, .finish = finish};
        exchange.request.method = GW_METHOD_POST;
        exchange.request.path = BASE_STR("/v1/checkin");
        exchange.request.device = (struct base_str){hex, WIRE_DEVICE_HEX};
        exchange.request.profile = bench->profiles[i];
        exchange.request.has_certificate = true; // nothing is kept of strangers
        exchange.request.certificate_device = device_id(i);
        exchange.request.secure = true;
        gw_core_handle(bench->worker, &exchange);
        bench->other_answers += exchange.reply.status != 204;
        if (changing && n % CHANGE_EVERY == CHANGE_EVERY - 1) {
            change_one(bench);
        }
    }
    uint64_t ns = now_ns() - start_ns;
    base_arena_done(&arena);
    return (double)ns / bench->devices;
}

static double linear_pass(const struct bench *bench)
{
    uint64_t start_ns = now_ns();
    volatile uint64_t sum = 0;
    for (uint32_t n = 0; n < LINEAR_SAMPLE; n++) {
        uint8_t block[WIRE_ATTRS_BYTES_MAX];
        uint32_t i = bench->order[n];
        size_t size = make_block(i % bench->blocks, block);
        struct gw_attrs_view view;
        must(gw_attrs_view(block, size, &view) == BASE_OK, "attributes");
        sum += linear(bench, device_id(i), &view.attrs);
    }
    return (double)(now_ns() - start_ns) / LINEAR_SAMPLE;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_checkin(char **arguments)
{
    char dir[] = "/tmp/walle-policy-XXXXXX";
    static struct bench bench;
    uint64_t releases = 0;
    uint64_t devices = 0;
    must(base_str_u64(base_str_of(arguments[0]), &releases) == BASE_OK && releases > 0 &&
             releases <= GW_TASKS_MAX,
         "RELEASES: 1 to 10000");
    must(base_str_u64(base_str_of(arguments[1]), &devices) == BASE_OK && devices >= LINEAR_SAMPLE &&
             devices <= 10000000,
         "DEVICES: 2000 to 10000000");
    must(mkdtemp(dir) != NULL, "no folder for the store");
    bench.releases = (uint32_t)releases;
    bench.devices = (uint32_t)devices;
    bench.everybody = strcmp(arguments[2], "everybody") == 0;
    bench.blocks = bench.everybody ? BLOCKS_COMMON : BLOCKS;
    base_prng_seed(&bench.prng, 20261121);
    struct gw_core_options options = {
        .dir = dir, .clock = {.mono_us = bench_mono_us, .wall_us = bench_wall_us}};
    struct base_error error = {0};
    must(gw_core_new(&options, &bench.core, &error) == BASE_OK, error.text);
    make_releases(&bench);
    make_devices(&bench);
    bench.worker = new_worker(&bench);
    double first_ns = pass(&bench, false);
    double steady_ns[ROUNDS];
    (void)pass(&bench, false);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        steady_ns[i] = pass(&bench, false);
    }
    qsort(steady_ns, ROUNDS, sizeof(steady_ns[0]), compare);
    double linear_ns = linear_pass(&bench);
    double changing_ns = pass(&bench, true);
    printf("{\"releases\": %u, \"devices\": %u, \"cohorts\": %u, \"first_ns\": %.1f, "
           "\"steady_ns\": %.1f, \"spread\": %.3f, \"changing_ns\": %.1f, \"linear_ns\": %.1f, "
           "\"settled\": %llu, \"wrong\": %llu, \"other_answers\": %llu}\n",
           bench.releases, bench.devices, bench.worker->cohorts->count, first_ns,
           steady_ns[ROUNDS / 2], (steady_ns[ROUNDS - 1] - steady_ns[0]) / steady_ns[ROUNDS / 2],
           changing_ns, linear_ns, (unsigned long long)bench.worker->stats.checkins_settled,
           (unsigned long long)bench.wrong, (unsigned long long)bench.other_answers);
    return 0; // the process ends: nothing is freed, and the empty store is removed by the caller
}

// ---- Matching

static int run_match(const char *argument)
{
    static struct bench bench;
    static struct pol_target targets[EXPRESSIONS];
    static struct gw_attrs_view views[DEVICES_MATCHED];
    static uint8_t blocks[DEVICES_MATCHED][WIRE_ATTRS_BYTES_MAX];
    uint64_t milliseconds = 0;
    struct base_arena arena;
    must(base_str_u64(base_str_of(argument), &milliseconds) == BASE_OK, "MILLISECONDS");
    base_arena_init(&arena, base_alloc_heap(), 0, 0);
    base_prng_seed(&bench.prng, 20261121);
    for (uint32_t i = 0; i < EXPRESSIONS; i++) {
        char text[256];
        uint32_t seed = i;
        // The whole example of the documentation among them, which leaves nothing out.
        if (i % 4 == 0) {
            (void)snprintf(text, sizeof(text),
                           "app_version >= 8.%u && os == \"android\" && ram_mb >= 2048 && "
                           "user.segment !in [\"s1\", \"s2\"] && !(model ~ \"SM-*\")",
                           i % 10);
        } else {
            do {
                target_of(&bench, seed++, text, sizeof(text));
            } while (text[0] == '\0');
        }
        compile(&arena, text, &targets[i]);
    }
    for (uint32_t i = 0; i < DEVICES_MATCHED; i++) {
        size_t size = make_block(i * 79, blocks[i]);
        must(gw_attrs_view(blocks[i], size, &views[i]) == BASE_OK, "attributes");
    }
    uint64_t evaluations = 0;
    uint64_t matched = 0;
    uint64_t start_ns = now_ns();
    uint64_t end_ns = start_ns + milliseconds * 1000000u;
    while (now_ns() < end_ns) {
        for (uint32_t k = 0; k < DEVICES_MATCHED; k++) {
            for (uint32_t i = 0; i < EXPRESSIONS; i++) {
                matched += pol_target_match(&targets[i], &views[k].attrs).matched;
            }
        }
        evaluations += (uint64_t)EXPRESSIONS * DEVICES_MATCHED;
    }
    double seconds = (double)(now_ns() - start_ns) / 1e9;
    printf("{\"per_s\": %.0f, \"matched\": %.4f}\n", (double)evaluations / seconds,
           (double)matched / (double)evaluations);
    base_arena_done(&arena);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "checkin") == 0) {
        return run_checkin(argv + 2);
    }
    if (argc == 3 && strcmp(argv[1], "match") == 0) {
        return run_match(argv[2]);
    }
    fprintf(stderr, "usage: policy_worker checkin RELEASES DEVICES targeted|everybody\n"
                    "       policy_worker match MILLISECONDS\n");
    return 64;
}
