// model_rollouts: random rollouts on the gateway that ships, devices that ship behind it, and a
// record of what was acknowledged, against which everything is held (model_world.h). A sequence
// that fails is made small and printed; it can be played again.
#include "model_cases.h"
#include "model_draw.h"
#include "model_shrink.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CALLS_DEFAULT   5000u
#define DEVICES_DEFAULT 24u
#define SHRINK_TRIES    600u
#define FAILURES_MAX    8u // seeds that failed; then it ends

struct options {
    uint64_t first;
    uint64_t last;
    uint64_t calls;
    uint32_t devices;
    uint32_t tries;
    bool verbose;
    const char *cases; // NULL: none; "": all
    const char *replay;
    char home[MODEL_PATH_MAX];
};

struct total {
    uint64_t calls;
    uint64_t checks;
    uint64_t waits;
    uint64_t whys;
    uint64_t worlds;
    uint64_t operations;
    uint32_t failures;
};

static const char usage[] =
    "usage: model_rollouts [--seeds A-B] [--calls N] [--devices D] [--cases [NAME]] [--replay "
    "FILE]\n"
    "                      [--shrink N] [--dir DIR] [--verbose]\n"
    "\n"
    "Random rollouts, device check-ins, failures and kills against the gateway and the devices "
    "that\n"
    "ship, held against a model. Without --seeds the fixed sequences alone.\n"
    "\n"
    "  --seeds A-B     play these seeds, N calls at the gateway each\n"
    "  --calls N       calls of a seed (5000)\n"
    "  --devices D     devices of a world, 1 to 64 (24)\n"
    "  --cases [NAME]  play the fixed sequences whose name contains NAME\n"
    "  --replay FILE   play the operations in FILE, one a line, as a failure is printed\n"
    "  --shrink N      plays in which a failing sequence is made smaller (600; 0: not)\n"
    "  --dir DIR       where stores are made (a folder in memory, where there is one)\n"
    "  --verbose       tell every operation on standard error\n";

static void report(const struct model_ops *ops, const struct model_result *result)
{
    (void)printf("  %s: %s\n", result->rule, result->text);
    model_ops_write(stdout, ops);
    (void)fflush(stdout);
}

// One world; false: it failed, and `ops` is what was done.
static bool play_world(const struct options *options, uint64_t seed, uint64_t calls_max,
                       struct model_ops *ops, struct model_result *out)
{
    struct model_world *world = calloc(1, sizeof(*world));
    struct model_draw draw;
    struct model_op op;
    if (world == NULL) {
        abort();
    }
    model_draw_world(&draw, seed, options->devices, &op);
    model_ops_add(ops, &op);
    model_world_open(world, &op, options->home, options->verbose);
    while (!world->failed && model_world_calls(world) < calls_max &&
           model_draw_next(&draw, world, &op)) {
        model_ops_add(ops, &op);
        model_world_do(world, &op);
    }
    model_world_close(world);
    *out = (struct model_result){.failed = world->failed,
                                 .calls = model_world_calls(world),
                                 .checks = world->checks,
                                 .waits = world->waits,
                                 .whys = world->whys,
                                 .done = ops->count};
    memcpy(out->rule, world->rule, sizeof(out->rule));
    memcpy(out->text, world->text, sizeof(out->text));
    free(world);
    return !out->failed;
}

static void play_seed(const struct options *options, uint64_t seed, struct total *total)
{
    uint64_t calls = 0;
    for (uint64_t number = 0; calls < options->calls; number++) {
        struct model_ops ops = {0};
        struct model_result result;
        bool ok = play_world(options, base_mix64(seed * 1000 + number), options->calls - calls,
                             &ops, &result);
        calls += result.calls;
        total->worlds++;
        total->checks += result.checks;
        total->waits += result.waits;
        total->whys += result.whys;
        total->operations += ops.count;
        if (!ok) {
            total->failures++;
            (void)printf("seed %llu, world %llu, after %llu calls and %u operations:\n",
                         (unsigned long long)seed, (unsigned long long)number,
                         (unsigned long long)calls, ops.count);
            if (options->tries > 0) {
                model_shrink(&ops, options->home, options->tries, &result);
            }
            report(&ops, &result);
        }
        model_ops_done(&ops);
        if (!ok) {
            break;
        }
    }
    total->calls += calls;
}

static int play_seeds(const struct options *options)
{
    struct total total = {0};
    struct timespec begin;
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = options->first; seed <= options->last && total.failures < FAILURES_MAX;
         seed++) {
        play_seed(options, seed, &total);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    (void)printf(
        "%llu calls, %llu operations, %llu worlds, %llu checks of a task on a device (%llu "
        "waited behind a restored copy), %llu answers of why, %u seeds failed; %.0f calls "
        "a second\n",
        (unsigned long long)total.calls, (unsigned long long)total.operations,
        (unsigned long long)total.worlds, (unsigned long long)total.checks,
        (unsigned long long)total.waits, (unsigned long long)total.whys, total.failures,
        seconds > 0 ? (double)total.calls / seconds : 0);
    return total.failures == 0 ? 0 : 1;
}

static int play_file(const struct options *options)
{
    struct model_ops ops = {0};
    struct model_result result;
    char why[200] = "cannot be read";
    FILE *file = fopen(options->replay, "r");
    bool ok = file != NULL && model_ops_read(file, &ops, why, sizeof(why)) && ops.count > 0 &&
              ops.items[0].kind == MODEL_OP_WORLD;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!ok) {
        (void)fprintf(stderr, "%s: %s\n", options->replay,
                      ops.count > 0 ? "the first operation is not `world`" : why);
        model_ops_done(&ops);
        return 2;
    }
    model_play(&ops, options->home, options->verbose, &result);
    (void)printf("%s%s%s\n", result.failed ? result.rule : "as it should be",
                 result.failed ? ": " : "", result.text);
    model_ops_done(&ops);
    return result.failed ? 1 : 0;
}

// A number of at least `least` that ends at `stop` (NUL: with the text).
static bool read_number(const char *text, char stop, uint64_t least, uint64_t *out,
                        const char **out_end)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    bool ok = text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == stop && *out >= least;
    if (ok && out_end != NULL) {
        *out_end = end;
    }
    return ok;
}

// "A" or "A-B", from 1 up.
static bool read_seeds(const char *text, struct options *out)
{
    const char *dash = NULL;
    if (read_number(text, '\0', 1, &out->first, NULL)) {
        out->last = out->first;
        return true;
    }
    return read_number(text, '-', 1, &out->first, &dash) &&
           read_number(dash + 1, '\0', out->first, &out->last, NULL);
}

static bool read_small(const char *text, uint32_t *out)
{
    uint64_t value = 0;
    bool ok = read_number(text, '\0', 0, &value, NULL) && value <= UINT32_MAX;
    *out = (uint32_t)value;
    return ok;
}

static bool parse(int argc, char **argv, struct options *out)
{
    static const struct option names[] = {
        {"seeds", required_argument, NULL, 's'},   {"calls", required_argument, NULL, 'n'},
        {"devices", required_argument, NULL, 'd'}, {"cases", optional_argument, NULL, 'c'},
        {"replay", required_argument, NULL, 'r'},  {"shrink", required_argument, NULL, 't'},
        {"dir", required_argument, NULL, 'D'},     {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},          {0}};
    const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    int option;
    *out = (struct options){
        .first = 1, .calls = CALLS_DEFAULT, .devices = DEVICES_DEFAULT, .tries = SHRINK_TRIES};
    bool ok = true;
    bool named = false;
    while (ok && (option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 's':
            ok = read_seeds(optarg, out);
            break;
        case 'n':
            ok = read_number(optarg, '\0', 1, &out->calls, NULL);
            break;
        case 'd':
            ok = read_small(optarg, &out->devices);
            break;
        case 'c':
            named = optarg == NULL && optind < argc && argv[optind][0] != '-';
            out->cases = optarg != NULL ? optarg : named ? argv[optind++] : "";
            break;
        case 'r':
            out->replay = optarg;
            break;
        case 't':
            ok = read_small(optarg, &out->tries);
            break;
        case 'D':
            dir = optarg;
            break;
        case 'v':
            out->verbose = true;
            break;
        default:
            ok = false;
            break;
        }
        if (!ok && option != '?' && option != 'h') {
            (void)fprintf(stderr, "model_rollouts: '%s' makes no sense there\n", optarg);
        }
    }
    (void)snprintf(out->home, sizeof(out->home), "%.80s/walle-model-%d", dir, (int)getpid());
    return ok && optind == argc && out->devices >= 1 && out->devices <= MODEL_DEVICES_MAX;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!parse(argc, argv, &options)) {
        (void)fputs(usage, argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    if (options.replay != NULL) {
        return play_file(&options);
    }
    bool only_cases = options.cases != NULL || options.last == 0;
    int code = 0;
    if (only_cases && !model_cases_play(options.home, options.cases, options.verbose)) {
        code = 1;
    }
    if (options.last >= options.first && options.last > 0) {
        int seeds = play_seeds(&options);
        code = code != 0 ? code : seeds;
    }
    return code;
}
