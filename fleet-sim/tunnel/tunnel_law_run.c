// The run of the tunnel's law: events in order of time, then a calm in which everybody delivers
// what is left, then the checks and the report. Called by fleet_main.c for `walle-fleet-sim
// tunnel`, on the main thread: both sides run in one process and in virtual time, so one seed gives
// the same run on each machine. The heap of events is the only clock; it is ordered by time and
// number, so a tie has one answer.
#include "tunnel/tunnel_law.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#define CALM_US    (UINT64_C(4) * 3600 * 1000000) // by then all must be idle
#define LOOK_US    (UINT64_C(10) * 1000000)
#define EXIT_USAGE 2

bool law_chance(struct law_sim *sim, uint64_t one_in)
{
    return base_prng_below(&sim->prng, one_in) == 0;
}

// ---- Events: a binary heap

static bool before(const struct law_event *a, const struct law_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void law_at(struct law_sim *sim, uint64_t at_us, enum law_event_kind kind, void *subject)
{
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = sim->heap_capacity == 0 ? 4096 : 2 * sim->heap_capacity;
        sim->heap = realloc(sim->heap, sim->heap_capacity * sizeof(sim->heap[0]));
        base_check(sim->heap != NULL);
    }
    const struct law_event event = {at_us, sim->order++, kind, subject};
    uint32_t at = sim->heap_count++;
    while (at > 0 && before(&event, &sim->heap[(at - 1) / 2])) {
        sim->heap[at] = sim->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->heap[at] = event;
}

static struct law_event pop(struct law_sim *sim)
{
    const struct law_event first = sim->heap[0];
    const struct law_event last = sim->heap[--sim->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->heap_count) {
            break;
        }
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child])) {
            child++;
        }
        if (!before(&sim->heap[child], &last)) {
            break;
        }
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

static void handle(struct law_sim *sim, const struct law_event *event)
{
    struct law_device *device = event->subject;
    sim->counts.events++;
    switch (event->kind) {
    case LAW_WAKE:
        if (device->wake_us == event->at_us) { // others were put off
            device->wake_us = UINT64_MAX;
            law_device_wake(device);
        }
        break;
    case LAW_ACT:
        law_device_act(device);
        break;
    case LAW_UP:
        law_link_up(event->subject);
        break;
    case LAW_DOWN:
        law_link_down(event->subject);
        break;
    case LAW_END:
        law_link_end(event->subject);
        break;
    case LAW_SINK:
        law_sink_lands(sim);
        break;
    case LAW_KINDS:
        break;
    }
}

static void run_until(struct law_sim *sim, uint64_t end_us)
{
    while (sim->heap_count > 0 && sim->heap[0].at_us <= end_us) {
        const struct law_event event = pop(sim);
        sim->now_us = event.at_us;
        handle(sim, &event);
    }
    sim->now_us = end_us;
}

// ---- The fleet

static void make_fleet(struct law_sim *sim)
{
    uint32_t count = sim->options.devices;
    sim->phones = calloc(count, sizeof(sim->phones[0]));
    sim->devices = calloc(2 * (size_t)count, sizeof(sim->devices[0])); // at most a clone each
    base_check(sim->phones != NULL && sim->devices != NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct law_phone *phone = &sim->phones[i];
        phone->index = i;
        phone->classes[0] = (uint8_t)base_prng_below(&sim->prng, 3);
        phone->classes[1] =
            (uint8_t)(phone->classes[0] + 1 + base_prng_below(&sim->prng, 3u - phone->classes[0]));
        phone->unreliable = !sim->options.calm && law_chance(sim, 10);
        (void)law_branch(sim, phone, LAW_NO_LINEAGE, NULL);
        law_device_new(sim, phone, &sim->devices[i]);
        sim->devices[i].script = sim->options.records / 2;
        law_at(sim, base_prng_below(&sim->prng, UINT64_C(60) * 1000000), LAW_ACT, &sim->devices[i]);
    }
    sim->device_count = count;
}

static bool all_done(struct law_sim *sim)
{
    bool done = true;
    for (uint32_t i = 0; i < sim->device_count; i++) {
        struct law_device *device = &sim->devices[i];
        if (law_device_is_idle(device)) {
            law_device_check(device);
        } else {
            done = false;
        }
    }
    return done;
}

static void calm_down(struct law_sim *sim)
{
    sim->calm = true;
    for (uint32_t i = 0; i < sim->device_count; i++) {
        law_device_settle(&sim->devices[i]);
    }
    uint64_t end = sim->now_us + CALM_US;
    while (!all_done(sim) && sim->now_us < end) {
        run_until(sim, sim->now_us + LOOK_US);
    }
    for (uint32_t i = 0; i < sim->device_count; i++) {
        struct law_device *device = &sim->devices[i];
        if (!device->done) {
            law_problem(sim, device->phone, "it still has something queued hours later");
            law_device_check(device);
        }
    }
    run_until(sim, sim->now_us + LOOK_US); // what is still on its way
}

static void check_all(struct law_sim *sim)
{
    for (uint32_t i = 0; i < sim->options.devices; i++) {
        law_check_epochs(sim, &sim->phones[i]);
    }
    struct gw_tunnel_stats stats;
    gw_tunnel_stats(sim->tunnel, &stats);
    if (stats.violations_total > 0) {
        law_problem(sim, NULL, "%llu streams of honest devices were taken for attacks",
                    (unsigned long long)stats.violations_total);
    }
    if (!gw_tunnel_validate(sim->tunnel)) {
        law_problem(sim, NULL, "the gateway's marks are not valid");
    }
}

static void free_fleet(struct law_sim *sim)
{
    for (uint32_t i = 0; i < sim->device_count; i++) {
        law_device_done(&sim->devices[i]);
    }
    for (uint32_t i = 0; i < sim->options.devices; i++) {
        struct law_phone *phone = &sim->phones[i];
        for (uint8_t l = 0; l < phone->lineage_count; l++) {
            for (uint8_t slot = 0; slot < LAW_CLASSES; slot++) {
                free(phone->lineages[l].tokens[slot].flags);
                free(phone->lineages[l].tokens[slot].offered_ms);
            }
        }
        free(phone->epochs);
    }
    free(sim->devices);
    free(sim->phones);
    free(sim->heap);
}

// ---- Report

static void report(const struct law_sim *sim, double wall_s, FILE *out)
{
    const struct law_counts *c = &sim->counts;
    struct gw_tunnel_stats gw;
    gw_tunnel_stats(sim->tunnel, &gw);
#define N(name) (unsigned long long)(name)
    (void)fprintf(out,
                  "{\"run\":\"tunnel-law\",\"seed\":%llu,\"devices\":%u,\"minutes\":%u,"
                  "\"bytes_per_device\":%zu,\"store_bytes_max\":%llu,\"alive_max\":%llu,"
                  "\"events\":%llu,\n \"offered\":%llu,\"rows\":%llu,\"rows_twice\":%llu,"
                  "\"batches\":%llu,\"losses\":%llu,\"declared_lost\":%llu,"
                  "\"gone_with_a_kill\":%llu,\n",
                  N(sim->options.seed), (unsigned)sim->options.devices,
                  (unsigned)sim->options.minutes, law_device_bytes(), N(sim->kv_bytes_max),
                  N(sim->live_max), N(c->events), N(c->offered), N(c->rows), N(c->duplicates),
                  N(c->batches), N(c->losses), N(c->lost_records), N(c->forgotten));
    (void)fprintf(out,
                  " \"lost\":{\"quota\":%llu,\"expired\":%llu,\"rejected\":%llu,\"policy\":%llu,"
                  "\"damaged\":%llu},\n \"boots\":%llu,\"kills\":%llu,\"kills_at_a_commit\":%llu,"
                  "\"lost_connections\":%llu,\"late_deliveries\":%llu,\"failed_commits\":%llu,"
                  "\"sink_failures\":%llu,\n",
                  N(c->lost[WIRE_TUNNEL_LOSS_QUOTA]), N(c->lost[WIRE_TUNNEL_LOSS_EXPIRED]),
                  N(c->lost[WIRE_TUNNEL_LOSS_REJECTED]), N(c->lost[WIRE_TUNNEL_LOSS_POLICY]),
                  N(c->lost[WIRE_TUNNEL_LOSS_DAMAGED]), N(c->boots), N(c->kills),
                  N(c->kills_at_commit), N(c->cuts), N(c->zombies), N(c->failed_commits),
                  N(c->sink_failures));
    (void)fprintf(out,
                  " \"restores\":%llu,\"clones\":%llu,\"copies_told_apart\":%llu,\"forks\":%llu,"
                  "\"epochs\":%llu,\"connects\":%llu,\"resent\":%llu,\"rejects\":%llu,"
                  "\"superseded\":%llu,\"known\":%llu,\n \"problems\":%llu,\"wall_s\":%.1f}\n",
                  N(c->restores), N(c->clones), N(c->copies_that_diverged), N(c->forks),
                  N(c->epochs), N(c->connects), N(c->resent), N(c->rejects), N(gw.superseded_total),
                  N(gw.known_total), N(c->problems), wall_s);
#undef N
}

// ---- Options

static bool take_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (text == NULL || base_str_u64(base_str_of(text), &value) != BASE_OK || value < least ||
        value > most) {
        return false;
    }
    *out = value;
    return true;
}

static const char usage[] =
    "Usage: walle-fleet-sim tunnel [OPTION...]\n"
    "The tunnel's law: both real sides of it in one process and in virtual time, with cut\n"
    "connections, kills, full disks, restored backups and clones; every record is accounted "
    "for.\n\n"
    "  --devices N   devices (2000)\n"
    "  --seed N      of everything drawn (20261121)\n"
    "  --minutes N   virtual minutes (30)\n"
    "  --records N   of each device (120)\n"
    "  --calm        nothing goes wrong\n\n"
    "Example: walle-fleet-sim tunnel --devices 2000 --seed 7\n"
    "Exit status: 0 the law held, 1 it did not, 2 usage.\n";

static bool parse(int argc, char **argv, struct law_options *options)
{
    uint64_t devices = 2000;
    uint64_t minutes = 30;
    uint64_t records = 120;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool ok = true;
        if (strcmp(argv[i], "--calm") == 0) {
            options->calm = true;
            continue;
        }
        if (strcmp(argv[i], "--devices") == 0) {
            ok = take_number(value, 1, 1000000, &devices);
        } else if (strcmp(argv[i], "--seed") == 0) {
            ok = take_number(value, 0, UINT64_MAX, &options->seed);
        } else if (strcmp(argv[i], "--minutes") == 0) {
            ok = take_number(value, 1, 100000, &minutes);
        } else if (strcmp(argv[i], "--records") == 0) {
            ok = take_number(value, 2, 100000, &records);
        } else {
            ok = false;
        }
        if (!ok) {
            (void)fprintf(stderr, "walle-fleet-sim: tunnel: %s %s is not an option of it\n",
                          argv[i], value != NULL ? value : "");
            return false;
        }
        i++;
    }
    options->devices = (uint32_t)devices;
    options->minutes = (uint32_t)minutes;
    options->records = (uint32_t)records;
    return true;
}

int sim_tunnel_law(int argc, char **argv, FILE *out)
{
    static struct law_sim sim;
    sim = (struct law_sim){.options = {.seed = 20261121}};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0)) {
        (void)fputs(usage, out);
        return 0;
    }
    if (!parse(argc, argv, &sim.options)) {
        (void)fputs(usage, stderr);
        return EXIT_USAGE;
    }
    (void)fprintf(out, "seed %llu\n", (unsigned long long)sim.options.seed);
    (void)fflush(out);
    uint64_t begin_us = base_clock_mono_us();
    base_prng_seed(&sim.prng, sim.options.seed);
    sim.now_us = 1000000;
    if (law_gateway_start(&sim) != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim: the gateway's tunnel does not start\n");
        return 1;
    }
    make_fleet(&sim);
    run_until(&sim, sim.now_us + (uint64_t)sim.options.minutes * 60 * 1000000);
    calm_down(&sim);
    check_all(&sim);
    report(&sim, (double)(base_clock_mono_us() - begin_us) / 1e6, out);
    law_gateway_stop(&sim);
    free_fleet(&sim);
    return sim.counts.problems == 0 ? 0 : 1;
}
