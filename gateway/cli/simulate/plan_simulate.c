// The simulation of a plan. cli_release.c calls it, on the one thread there is. The gateway is a
// stand-in (stand_in.h), whose gates are those that ship; each run is walle-fleet-sim in virtual
// time. Figures are of a few seeds: the middle one, and between which they all lie.
#include "cli/simulate/plan_simulate.h"

#include "cli/base/cli_json.h"
#include "cli/simulate/stand_in.h"
#include "cli/stages/ladder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS            5u
#define DEVICES_DEFAULT 2000u
#define DEVICES_MOST    100000u
#define ONLINE_S        300u // within so long everybody has come: a check-in interval
#define HORIZON_S       14400.0
#define HORIZON_MOST_S  1000000.0
#define STAGES_MOST     32
#define ENTER_SPREAD    4.0 // deviations of a draw by share that are let pass

// What is released: `rule` of walle-fleet-sim run --bad.
static const struct release {
    const char *key;
    const char *text;
    const char *rule; // NULL: it is good
} releases[] = {
    {"good", "a good release", NULL},
    {"bad_everywhere", "a release that fails on every device", "all => exception @ 100%"},
    {"bad_on_a_tenth", "a release that fails on one device in ten", "all => exception @ 10%"},
};
#define RELEASES (sizeof(releases) / sizeof(releases[0]))

struct simulation {
    const struct cli *cli;
    struct stand_in in;
    json_t *stages;
    char population[PATH_MAX];
    char version[64];
    uint64_t devices;
    double horizon_s;
    double began_s[STAGES_MOST][RUNS]; // of the good release; NAN: it never did
    double ended_s[RUNS];              // ... its last stage; NAN
    double stopped_s[RELEASES][RUNS];  // NAN: it was not
    double reached[RELEASES][RUNS];    // devices that ran it
};

// ---- What is asked for

// Without a stage that is played beforehand.
static json_t *stages_of(const json_t *stages)
{
    json_t *kept = json_array();
    size_t index;
    json_t *stage;
    json_array_foreach((json_t *)(uintptr_t)stages, index, stage)
    {
        if (ladder_kind(stage) != POL_STAGE_SIMULATE) {
            (void)json_array_append(kept, stage);
        }
    }
    return kept;
}

static enum cli_exit check(const struct cli *cli)
{
    bool dir = cli_given(cli, CLI_OPTION_DIR);
    if (cli->arg_count == 0 || !cli_given(cli, CLI_OPTION_BUILD)) {
        return cli_fail(CLI_EXIT_USAGE,
                        "--simulate runs the version: TASK and --build DIR are needed");
    }
    if (dir == cli_given(cli, CLI_OPTION_POPULATION)) {
        return cli_fail(CLI_EXIT_USAGE,
                        "--simulate needs either --dir DIR, the data folder of a gateway that is "
                        "not running, or --population FILE");
    }
    struct stat about;
    const char *path = cli->values[dir ? CLI_OPTION_DIR : CLI_OPTION_POPULATION];
    if (stat(path, &about) != 0 || S_ISDIR(about.st_mode) != dir) {
        return cli_fail(CLI_EXIT_LOCAL, "%s: no %s on this machine", path,
                        dir ? "folder of a gateway" : "population file");
    }
    return CLI_EXIT_OK;
}

// The most devices that may be expected to enter a stage, whatever its audience: those below its
// share and above what was let in before.
static double enter_most(double devices, const json_t *stage, double *inside)
{
    double share = ladder_max_bucket(stage) / 10000.0;
    double enter = devices * fmax(share - *inside, 0);
    if (ladder_is_for_everybody(stage)) {
        *inside = fmax(*inside, share);
    }
    return enter;
}

// A stage whose sample the fleet cannot fill waits until the end of each run: that takes long, and
// is known beforehand. Shares are drawn by device, so a little more than its share may enter.
static enum cli_exit check_samples(const struct simulation *of)
{
    double inside = 0;
    size_t index;
    json_t *stage;
    json_array_foreach(of->stages, index, stage)
    {
        double sample = (double)cli_json_u64(stage, "min_sample");
        double enter = enter_most((double)of->devices, stage, &inside);
        if (fmin(enter + ENTER_SPREAD * sqrt(enter), (double)of->devices) < sample) {
            return cli_fail(CLI_EXIT_USAGE,
                            "the plan cannot pass on %llu devices: the stage %s waits for %.0f, "
                            "and about %.0f enter it; --fleet N takes more (at most %u), "
                            "min_sample of the stage asks for fewer",
                            (unsigned long long)of->devices, cli_json_text(stage, "name", "?"),
                            sample, enter, DEVICES_MOST);
        }
    }
    return CLI_EXIT_OK;
}

static enum cli_exit population_make(struct simulation *of)
{
    const struct cli *cli = of->cli;
    if (!cli_given(cli, CLI_OPTION_DIR)) {
        (void)snprintf(of->population, sizeof(of->population), "%s",
                       cli->values[CLI_OPTION_POPULATION]);
        return CLI_EXIT_OK;
    }
    (void)snprintf(of->population, sizeof(of->population), "%s/population.conf", of->in.folder);
    const char *const words[] = {
        of->in.fleet_sim, "population", "--from-gateway", cli->values[CLI_OPTION_DIR], "--out",
        of->population,   NULL};
    if (stand_in_run(&of->in, words) != 0) {
        char said[256];
        stand_in_said(&of->in, said);
        return cli_fail(CLI_EXIT_LOCAL, "--dir: %s", said);
    }
    return CLI_EXIT_OK;
}

static void version_read(struct simulation *of)
{
    char path[PATH_MAX];
    json_t *build = NULL;
    (void)snprintf(path, sizeof(path), "%.4000s/build.json", of->cli->values[CLI_OPTION_BUILD]);
    if (cli_json_load(path, &build, NULL) == BASE_OK) {
        (void)snprintf(of->version, sizeof(of->version), "%s", cli_json_text(build, "version", ""));
    }
    json_decref(build);
}

// ---- A run

// The moment of the first mark that says so; NAN: none does. A mark is VERSION and the stage or
// state.
static double mark_s(const json_t *report, const char *word)
{
    size_t index;
    json_t *mark;
    json_array_foreach(json_object_get(report, "marks"), index, mark)
    {
        const char *space = strchr(cli_json_text(mark, "text", ""), ' ');
        if (space != NULL && strcmp(space + 1, word) == 0) {
            return json_number_value(json_object_get(mark, "t_s"));
        }
    }
    return NAN;
}

static double first_s(const json_t *report, const char *const *words)
{
    double first = NAN;
    for (; *words != NULL; ++words) {
        first = fmin(first, mark_s(report, *words)); // NAN only where both are
    }
    return first;
}

static void run_read(struct simulation *of, uint32_t release, uint32_t run, const json_t *report)
{
    static const char *const ends[] = {"guarding", "completed", NULL};
    static const char *const stops[] = {"rolling_back", "rolled_back", "paused", NULL};
    const json_t *version = json_array_get(json_object_get(report, "versions"), 0);
    of->stopped_s[release][run] = first_s(report, stops);
    of->reached[release][run] = (double)cli_json_u64(version, "activated");
    for (size_t i = 0; release == 0 && i < json_array_size(of->stages) && i < STAGES_MOST; ++i) {
        const char *name = cli_json_text(json_array_get(of->stages, i), "name", "");
        of->began_s[i][run] = mark_s(report, name);
    }
    if (release == 0) {
        of->ended_s[run] = first_s(report, ends);
    }
}

static enum cli_exit run_play(struct simulation *of, uint32_t release, uint32_t run)
{
    char texts[4][32];
    char at[4][128];
    json_t *report = NULL;
    (void)snprintf(texts[0], sizeof(texts[0]), "%llu", (unsigned long long)of->devices);
    (void)snprintf(texts[1], sizeof(texts[1]), "%.3f", (double)of->devices / ONLINE_S);
    (void)snprintf(texts[2], sizeof(texts[2]), "%u", run + 1);
    (void)snprintf(texts[3], sizeof(texts[3]), "%.0f", of->horizon_s);
    (void)snprintf(at[0], sizeof(at[0]), "%s/gateway", of->in.folder);
    (void)snprintf(at[1], sizeof(at[1]), "%s/root.1", of->in.folder);
    (void)snprintf(at[2], sizeof(at[2]), "%s/run", of->in.folder);
    (void)snprintf(at[3], sizeof(at[3]), "%s/run/run.json", of->in.folder);
    const char *words[32] = {of->in.fleet_sim,
                             "run",
                             "--virtual",
                             at[0],
                             "--root",
                             at[1],
                             "--devices",
                             texts[0],
                             "--arrival-rate",
                             texts[1],
                             "--seed",
                             texts[2],
                             "--duration",
                             texts[3],
                             "--population",
                             of->population,
                             "--until-rollout",
                             of->in.rollout,
                             "--no-live",
                             "--out",
                             at[2],
                             NULL};
    if (releases[release].rule != NULL) {
        words[21] = "--bad";
        words[22] = releases[release].rule;
        words[23] = "--bad-version";
        words[24] = of->version;
    }
    (void)remove(at[3]);
    int status = stand_in_run(&of->in, words);
    // Whatever the run is judged as, its report says what became of the rollout.
    if (status < 0 || cli_json_load(at[3], &report, NULL) != BASE_OK) {
        char said[256];
        stand_in_said(&of->in, said);
        return cli_fail(CLI_EXIT_LOCAL, "the plan cannot be simulated: %s", said);
    }
    run_read(of, release, run, report);
    json_decref(report);
    return CLI_EXIT_OK;
}

// What became of a run, as it ends. USAGE: a good release waits in a stage until the run's end, and
// so it would in each further one, which takes as long.
static enum cli_exit run_tell(const struct simulation *of, uint32_t release, uint32_t run)
{
    double stopped_s = of->stopped_s[release][run];
    if (!isnan(stopped_s)) {
        fprintf(stderr, "  run %u of %u: stopped after %.0f s\n", run + 1, RUNS, stopped_s);
    } else if (release > 0) {
        fprintf(stderr, "  run %u of %u: not stopped\n", run + 1, RUNS);
    } else if (!isnan(of->ended_s[run])) {
        fprintf(stderr, "  run %u of %u: passed after %.0f s\n", run + 1, RUNS, of->ended_s[run]);
    } else {
        const char *last = "no stage";
        for (size_t i = 0; i < json_array_size(of->stages) && i < STAGES_MOST; ++i) {
            const json_t *stage = json_array_get(of->stages, i);
            last = isnan(of->began_s[i][run]) ? last : cli_json_text(stage, "name", "?");
        }
        return cli_fail(CLI_EXIT_USAGE,
                        "the plan does not pass on %llu devices: after %.0f s a good release still "
                        "waits in %s; walle rollout plan without --simulate says who enters it",
                        (unsigned long long)of->devices, of->horizon_s, last);
    }
    return CLI_EXIT_OK;
}

static enum cli_exit runs_play(struct simulation *of)
{
    for (uint32_t release = 0; release < RELEASES; ++release) {
        fprintf(stderr, "simulating %s on %llu virtual devices, %u times\n", releases[release].text,
                (unsigned long long)of->devices, RUNS);
        for (uint32_t run = 0; run < RUNS; ++run) {
            enum cli_exit code = run_play(of, release, run);
            code = code == CLI_EXIT_OK ? run_tell(of, release, run) : code;
            if (code != CLI_EXIT_OK) {
                return code;
            }
        }
    }
    return CLI_EXIT_OK;
}

// ---- Figures

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// {"runs", "middle", "least", "most"} of the runs that have it; null: none has.
static json_t *figure(const double *values)
{
    double kept[RUNS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < RUNS; ++i) {
        if (!isnan(values[i])) {
            kept[count++] = values[i];
        }
    }
    qsort(kept, count, sizeof(kept[0]), compare_doubles);
    return count == 0 ? json_null()
                      : json_pack("{s:i, s:f, s:f, s:f}", "runs", (int)count, "middle",
                                  kept[count / 2], "least", kept[0], "most", kept[count - 1]);
}

static json_t *stages_json(const struct simulation *of)
{
    json_t *list = json_array();
    size_t count = json_array_size(of->stages);
    for (size_t i = 0; i < count && i < STAGES_MOST; ++i) {
        const double *next =
            i + 1 < count && i + 1 < STAGES_MOST ? of->began_s[i + 1] : of->ended_s;
        double took_s[RUNS];
        for (uint32_t run = 0; run < RUNS; ++run) {
            took_s[run] = next[run] - of->began_s[i][run];
        }
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:o}", "name",
                            cli_json_text(json_array_get(of->stages, i), "name", ""), "began_s",
                            figure(of->began_s[i]), "took_s", figure(took_s)));
    }
    return list;
}

static json_t *releases_json(const struct simulation *of)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < RELEASES; ++i) {
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "key", releases[i].key,
                                                    "text", releases[i].text, "stopped_s",
                                                    figure(of->stopped_s[i]), "reached",
                                                    figure(of->reached[i])));
    }
    return list;
}

static json_t *simulation_json(const struct simulation *of)
{
    bool dir = cli_given(of->cli, CLI_OPTION_DIR);
    return json_pack("{s:s, s:I, s:i, s:i, s:o, s:o, s:o}", "like",
                     of->cli->values[dir ? CLI_OPTION_DIR : CLI_OPTION_POPULATION], "devices",
                     (json_int_t)of->devices, "online_within_s", (int)ONLINE_S, "runs", (int)RUNS,
                     "stages", stages_json(of), "passed_s", figure(of->ended_s), "releases",
                     releases_json(of));
}

static void prepare(struct simulation *of)
{
    size_t index;
    json_t *stage;
    of->horizon_s = HORIZON_S;
    json_array_foreach(of->stages, index, stage)
    {
        of->horizon_s += 3.0 * (double)cli_json_u64(stage, "min_dwell_s");
    }
    of->horizon_s = fmin(of->horizon_s, HORIZON_MOST_S);
    for (uint32_t run = 0; run < RUNS; ++run) {
        of->ended_s[run] = NAN;
        for (uint32_t i = 0; i < STAGES_MOST; ++i) {
            of->began_s[i][run] = NAN;
        }
    }
    version_read(of);
}

enum cli_exit plan_simulate(const struct cli *cli, const json_t *stages, json_t **out_simulation)
{
    static struct simulation of;
    of = (struct simulation){.cli = cli, .stages = stages_of(stages)};
    enum cli_exit code = check(cli);
    if (code == CLI_EXIT_OK) {
        const struct cli_range range = {1, DEVICES_MOST, DEVICES_DEFAULT, NULL};
        code = cli_option_range(cli, CLI_OPTION_FLEET, &range, &of.devices);
    }
    if (code == CLI_EXIT_OK) {
        const struct stand_in_plan plan = {cli->args[0], cli->values[CLI_OPTION_BUILD],
                                           cli->values[CLI_OPTION_TARGET], of.stages};
        prepare(&of);
        code = check_samples(&of);
        code = code == CLI_EXIT_OK ? stand_in_begin(&of.in) : code;
        code = code == CLI_EXIT_OK ? population_make(&of) : code;
        code = code == CLI_EXIT_OK ? stand_in_make(&plan, &of.in) : code;
        code = code == CLI_EXIT_OK ? runs_play(&of) : code;
        *out_simulation = code == CLI_EXIT_OK ? simulation_json(&of) : NULL;
        stand_in_done(&of.in);
    }
    json_decref(of.stages);
    return code;
}

// ---- For people

static void figure_print(const char *before, const json_t *figure, const char *unit)
{
    if (json_is_null(figure)) {
        printf("%snever", before);
        return;
    }
    printf("%s%.0f%s (%.0f to %.0f)", before, json_number_value(json_object_get(figure, "middle")),
           unit, json_number_value(json_object_get(figure, "least")),
           json_number_value(json_object_get(figure, "most")));
}

static void release_print(const json_t *release, uint64_t devices, uint64_t runs)
{
    const json_t *stopped = json_object_get(release, "stopped_s");
    const json_t *reached = json_object_get(release, "reached");
    double share = json_number_value(json_object_get(reached, "most")) * 100 / (double)devices;
    printf("  %s: stopped in %llu of %llu runs", cli_json_text(release, "text", "?"),
           (unsigned long long)(json_is_null(stopped) ? 0 : cli_json_u64(stopped, "runs")),
           (unsigned long long)runs);
    if (!json_is_null(stopped)) {
        figure_print(", after ", stopped, " s");
    }
    if (strcmp(cli_json_text(release, "key", ""), releases[0].key) != 0) {
        figure_print("; devices that took it: ", reached, "");
        printf(", %.1f %% at most", share);
    }
    putchar('\n');
}

void plan_simulation_show(const json_t *simulation)
{
    uint64_t runs = cli_json_u64(simulation, "runs");
    uint64_t devices = cli_json_u64(simulation, "devices");
    size_t index;
    json_t *item;
    printf("\nsimulated %llu times on %llu virtual devices like those of %s, online within %llu s, "
           "by the gateway's own\ngates: the middle run, and between which all lie\n",
           (unsigned long long)runs, (unsigned long long)devices,
           cli_json_text(simulation, "like", "?"),
           (unsigned long long)cli_json_u64(simulation, "online_within_s"));
    json_array_foreach(json_object_get(simulation, "stages"), index, item)
    {
        printf("  %-12s", cli_json_text(item, "name", "?"));
        figure_print(" begins at ", json_object_get(item, "began_s"), " s");
        figure_print(", takes ", json_object_get(item, "took_s"), " s");
        putchar('\n');
    }
    figure_print("  all passed after ", json_object_get(simulation, "passed_s"), " s");
    putchar('\n');
    json_array_foreach(json_object_get(simulation, "releases"), index, item)
    {
        release_print(item, devices, runs);
    }
}
