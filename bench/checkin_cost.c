// checkin_cost: processor time of one check-in that has no news, inside the gateway's core, without
// sockets. One thread. Prints one JSON line a round: nanoseconds for each kind of device, the kinds
// taking turns.
//
//   nobody      no device has enrolled, and none shows anything
//   stranger    other devices have enrolled: this one is looked up
//   credential  every device has enrolled and shows its credential
#include "base/alloc.h"
#include "base/clock.h"
#include "base/prng.h"
#include "svc/core_private.h"
#include "svc/access/credentials.h"
#include "wire/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES      200000u
#define ROUNDS_MAX   100u
#define PER_ROUND    100000u
#define ARENA_BYTES  (64 * 1024)
#define PROFILE_TEXT 64

enum kind { KIND_NOBODY, KIND_STRANGER, KIND_CREDENTIAL, KIND_COUNT };

struct cost {
    struct gw_core *core[KIND_COUNT];
    struct gw_worker *worker[KIND_COUNT];
    char (*secrets)[GW_SECRET_TEXT_BYTES + 1];
    char profile[PROFILE_TEXT];
    size_t profile_bytes;
    bool finished;
};

static void post(void *ctx, struct gw_message *message)
{
    (void)ctx;
    (void)message; // nothing here waits for one
}

static void finish(struct gw_exchange *exchange)
{
    ((struct cost *)exchange->owner)->finished = true;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool open_core(struct cost *cost, enum kind kind, const char *folder)
{
    char dir[256];
    struct base_error error = {0};
    (void)snprintf(dir, sizeof(dir), "%s/%d", folder, (int)kind);
    const struct gw_core_options options = {.dir = dir, .clock = *base_clock_real()};
    if (gw_core_new(&options, &cost->core[kind], &error) != BASE_OK ||
        gw_worker_new(cost->core[kind], NULL, post, &cost->worker[kind]) != BASE_OK) {
        fprintf(stderr, "%s: %s\n", dir, error.text);
        return false;
    }
    struct gw_credentials *credentials = cost->core[kind]->credentials;
    for (uint64_t i = 0; kind != KIND_NOBODY && i < DEVICES; i++) {
        struct gw_credential credential = {.state = GW_CREDENTIAL_TOKEN};
        (void)gw_secret_hash(base_str_of(cost->secrets[i]), GW_SECRET_DEVICE, &credential.hash);
        // Strangers are as many others.
        uint64_t id = base_mix64(i + (kind == KIND_STRANGER ? DEVICES : 0));
        if (!gw_credentials_set(credentials, id, &credential)) {
            return false;
        }
    }
    return true;
}

static bool make_profile(struct cost *cost)
{
    uint8_t bytes[32];
    size_t size = 0;
    static const uint8_t no_attrs[] = {0};
    const struct wire_profile profile = {
        .tasks_max = 32, .interval_s = 300, .attrs = no_attrs, .attrs_bytes = sizeof(no_attrs)};
    if (wire_profile_encode(&profile, NULL, bytes, sizeof(bytes), &size) != BASE_OK) {
        return false;
    }
    cost->profile_bytes = base_b64_encode(bytes, size, cost->profile);
    return true;
}

// Nanoseconds a check-in; 0 when one was not answered as it should be.
static double measure(struct cost *cost, enum kind kind, struct base_prng *prng,
                      struct base_arena *arena)
{
    uint64_t spent = 0;
    for (uint32_t i = 0; i < PER_ROUND; i++) {
        char hex[WIRE_DEVICE_HEX + 1];
        uint64_t number = base_prng_below(prng, DEVICES);
        struct gw_exchange exchange = {.arena = arena, .owner = cost, .finish = finish};
        wire_device_hex(base_mix64(number), hex);
        exchange.request.method = GW_METHOD_POST;
        exchange.request.path = BASE_STR("/v1/checkin");
        exchange.request.device = base_str_of(hex);
        exchange.request.profile = (struct base_str){cost->profile, cost->profile_bytes};
        if (kind == KIND_CREDENTIAL) {
            exchange.request.credential =
                (struct base_str){cost->secrets[number], GW_SECRET_TEXT_BYTES};
        }
        cost->finished = false;
        uint64_t begin = cpu_ns();
        gw_core_handle(cost->worker[kind], &exchange);
        spent += cpu_ns() - begin;
        base_arena_reset(arena);
        if (!cost->finished || exchange.reply.status != 204) {
            fprintf(stderr, "status %d\n", exchange.reply.status);
            return 0;
        }
    }
    return (double)spent / PER_ROUND;
}

static double clock_cost(void)
{
    uint64_t begin = cpu_ns();
    for (uint32_t i = 0; i < PER_ROUND; i++) {
        (void)cpu_ns();
    }
    return (double)(cpu_ns() - begin) / PER_ROUND;
}

static int run(struct cost *cost, uint64_t rounds)
{
    struct base_prng prng;
    struct base_arena arena;
    base_prng_seed(&prng, 1);
    base_arena_init(&arena, base_alloc_heap(), 0, ARENA_BYTES);
    for (uint64_t round = 0; round <= rounds; round++) {
        double ns[KIND_COUNT];
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            ns[kind] = measure(cost, (enum kind)kind, &prng, &arena);
            if (ns[kind] <= 0) {
                return EXIT_FAILURE;
            }
        }
        double clock = clock_cost();
        if (round > 0) { // the first one warms up
            printf("{\"nobody\": %.1f, \"stranger\": %.1f, \"credential\": %.1f}\n",
                   ns[KIND_NOBODY] - clock, ns[KIND_STRANGER] - clock, ns[KIND_CREDENTIAL] - clock);
        }
    }
    printf("{\"bytes_a_device\": %.1f}\n",
           (double)gw_credentials_bytes(cost->core[KIND_CREDENTIAL]->credentials) / DEVICES);
    base_arena_done(&arena);
    return EXIT_SUCCESS;
}

static uint64_t next(void *ctx)
{
    return base_prng_next(ctx);
}

int main(int argc, char **argv)
{
    static struct cost cost;
    struct base_prng prng;
    uint64_t rounds = 0;
    if (argc != 3 || base_str_u64(base_str_of(argv[2]), &rounds) != BASE_OK || rounds == 0 ||
        rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: checkin_cost FOLDER ROUNDS\n");
        return 2;
    }
    base_prng_seed(&prng, 2);
    const struct base_random_port random = {.ctx = &prng, .next = next};
    cost.secrets = calloc(DEVICES, sizeof(cost.secrets[0]));
    bool ok = cost.secrets != NULL && make_profile(&cost);
    for (uint32_t i = 0; ok && i < DEVICES; i++) {
        ok = gw_secret_make(&random, GW_SECRET_DEVICE, cost.secrets[i]) == BASE_OK;
    }
    for (int kind = 0; ok && kind < KIND_COUNT; kind++) {
        ok = open_core(&cost, (enum kind)kind, argv[1]);
    }
    int result = ok ? run(&cost, rounds) : EXIT_FAILURE;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (cost.worker[kind] != NULL) {
            gw_worker_free(cost.worker[kind]);
        }
        gw_core_free(cost.core[kind]);
    }
    free(cost.secrets);
    return result;
}
