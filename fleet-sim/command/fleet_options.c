// Options of the two commands, run and simulate: one argp table, checked word by word. Main thread,
// once. fleet_main.c is the only caller. Everything that needs no look at the machine is refused
// here, in words that name the option; what the machine lacks is said by preflight.c. Options do
// not change after this, so all threads may read them.
#include "command/fleet_options.h"

#include "run/fleet_behaviour.h"
#include "run/fleet_run.h"
#include "command/option_checks.h"
#include "command/option_people.h"
#include "command/option_words.h"
#include "command/scenario_file.h"
#include "cloud/sim_cloud.h"

#include "model/repro_line.h"

#include "base/text/near_option.h"
#include "base/prng.h"
#include "report/thresholds.h"

#include <argp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PER_CARRIER_DEFAULT 1000
#define RATE_DEFAULT        10000.0
#define REAL_EVERY_DEFAULT  10000
#define HELP_BYTES_MAX      8192
#define COMMANDS                                                                                   \
    "run|simulate|certify|swarm|shrink|conform|diff|verify|replay|fork|fit|population|law|tunnel"

enum key {
    KEY_GATEWAY = 1000,
    KEY_GATEWAY_TLS,
    KEY_DEDICATED,
    KEY_PER_CARRIER,
    KEY_SEED,
    KEY_TRUST,
    KEY_ROOT,
    KEY_DURATION,
    KEY_COVERAGE,
    KEY_VERSION,
    KEY_UNTIL_ROLLOUT,
    KEY_ROLLOUT,
    KEY_RATE,
    KEY_BAD,
    KEY_BAD_VERSION,
    KEY_MAX_EXPOSED,
    KEY_OUT,
    KEY_REAL_EVERY,
    KEY_THREADS,
    KEY_NO_LIVE,
    KEY_HINTS,
    KEY_AWAKE,
    KEY_BETA,
    KEY_KILLS,
    KEY_WRONG_CLOCKS,
    KEY_CLOCK_OFF,
    KEY_GIVE,
    KEY_CLOUD_MODELS,
    KEY_CLOUD_MS,
    KEY_CLOUD_LOAD,
    KEY_TASK,
    KEY_WHERE,
    KEY_TARGET,
    KEY_EVIDENCE,
    KEY_EVIDENCE_KEY,
    KEY_MANIFEST,
    KEY_BLOBS,
    KEY_MAX_FAILURE,
    KEY_EXCLUSIVE,
    KEY_TIMEOUT,
    KEY_RETRY,
    KEY_INTERVAL,
    KEY_BEHAVIOUR,
    KEY_SESSIONS,
    KEY_SESSION_EVERY,
    KEY_ACTIVE,
    KEY_PANEL,
    KEY_UNTIL_STOPPED,
    KEY_UNTIL_REST,
    KEY_CONTENT,
    KEY_ENROL,
    KEY_CREDENTIALS,
    KEY_TOKEN_FILE,
    KEY_BUSINESS,
    KEY_UPSTREAM,
    KEY_TASKS,
    KEY_RUNS,
    KEY_VIRTUAL,
    KEY_STRANGERS,
    KEY_OWN_SIGNATURES,
    KEY_TRACE,
    KEY_AGAIN,
    KEY_THRESHOLD,
    KEY_METRICS,
    KEY_JUNIT,
    KEY_SCENARIO,
    KEY_ARRIVALS,
    KEY_POPULATION,
    KEY_LINKS,
    KEY_ZOMBIES,
    KEY_CLONES,
    KEY_REINSTALLS,
    KEY_PRESENCE,
    KEY_FAULT,
    KEY_FIRST_DEVICE,
    KEY_FAULTS_UNTIL,
    KEY_ACT,
    KEY_AGAIN_TO,
    KEY_BYTE_DEVICES,
    KEY_DEVICES = 'n',
};

// Groups of the table: whose an option is. The other command refuses it.
enum group { GROUP_BOTH = 1, GROUP_RUN, GROUP_SIMULATE };

static const struct argp_option table[] = {
    {0, 0, 0, 0, "Both commands:", GROUP_BOTH},
    {"devices", KEY_DEVICES, "N", 0, "Virtual devices (1000)", GROUP_BOTH},
    {"first-device", KEY_FIRST_DEVICE, "N", 0,
     "Index in the population of the first of them: some devices of a larger fleet (0)",
     GROUP_BOTH},
    {"seed", KEY_SEED, "S", 0, "Of the population and of everything drawn (1)", GROUP_BOTH},
    {"threads", KEY_THREADS, "T", 0, "Threads that run devices (1)", GROUP_BOTH},
    {"out", KEY_OUT, "DIR", 0, "Where the reports go (out/fleet)", GROUP_BOTH},
    {"population", KEY_POPULATION, "FILE", 0,
     "Who the devices are: joint tables of their attributes, zones and networks (built in)",
     GROUP_BOTH},
    {"where", KEY_WHERE, "PREDICATE", 0, "Draw only devices like this", GROUP_BOTH},
    {"task", KEY_TASK, "NAME|DIR", 0,
     "run: task the ledger follows (the first one offered); simulate: folder made by walle task "
     "build",
     GROUP_BOTH},
    {"bad", KEY_BAD, "RULE", 0,
     "'PREDICATE => BEHAVIOUR @ PROBABILITY [each]' on the bad versions; behaviours: crash, "
     "exception [N], hang, slow [MS], wrong; 'each' draws anew at each activation; may be given "
     "again",
     GROUP_BOTH},
    {"fault", KEY_FAULT, "FAULT", 0,
     "'FAMILY:KIND [AMOUNT] @ PROBABILITY [where PREDICATE]': what goes wrong around the devices; "
     "listed below; may be given again",
     GROUP_BOTH},
    {"faults-until", KEY_FAULTS_UNTIL, "SECONDS", 0,
     "From then on no --fault happens any more, and everybody has to come to the release (never)",
     GROUP_BOTH},
    {"real-every", KEY_REAL_EVERY, "N", 0,
     "One device in N does all work for real, nothing shared (10000; 0: none)", GROUP_BOTH},
    {"awake", KEY_AWAKE, "N", 0, "Devices in memory, with --hints at work (4096)", GROUP_BOTH},
    {"beta", KEY_BETA, "SHARE", 0, "Share of devices on the beta channel (1%)", GROUP_BOTH},
    {"kills", KEY_KILLS, "SHARE", 0, "Share of wakes that end in a kill at some moment (0)",
     GROUP_BOTH},
    {"scenario", KEY_SCENARIO, "FILE", 0,
     "Options from a file, a line `name = value` each, a switch as yes or no; what the command "
     "line "
     "gives wins",
     GROUP_BOTH},
    {"arrival-rate", KEY_RATE, "R", 0, "Devices a second that come online (10000)", GROUP_BOTH},
    {"arrivals", KEY_ARRIVALS, "SHAPE", 0,
     "How they come online instead: steady:R, ramp:A:B:S (from A to B a second within S seconds), "
     "spike:R:N:S (N more at second S), points:S=N,S=N (N by second S, the last N is the fleet), "
     "trace:FILE (a line S N each) or diurnal:H (a day, from hour H of UTC)",
     GROUP_BOTH},
    {"behaviour", KEY_BEHAVIOUR, "none|ipv|triggers|FILE", 0,
     "What users do: nothing; item page views as generated; what the tasks' triggers ask for; or "
     "sessions of a log in the form of walle-device --events. Starts tasks and feeds the tunnel "
     "(run: none, simulate: triggers)",
     GROUP_BOTH},
    {"sessions", KEY_SESSIONS, "N", 0,
     "Sessions of each device; a run without another goal then ends (run: 0, no end; simulate: 10)",
     GROUP_BOTH},
    {"active", KEY_ACTIVE, "N", 0, "Devices in a session at once (64)", GROUP_BOTH},
    {"panel", KEY_PANEL, "SHARE", 0, "Devices that --behaviour is of (100%)", GROUP_BOTH},
    {"wrong-clocks", KEY_WRONG_CLOCKS, "SHARE", 0,
     "Devices whose wall clock is wrong: a quarter of them was never set, it is 1970 there (0%)",
     GROUP_BOTH},
    {"clock-off", KEY_CLOCK_OFF, "DAYS", 0, "The others' are wrong by up to this, either way (400)",
     GROUP_BOTH},
    {"give", KEY_GIVE, "NAME=PATH", 0, "File that walle.blob(NAME) gives; of a folder one a device",
     GROUP_BOTH},
    {"cloud-models", KEY_CLOUD_MODELS, "DIR", 0,
     "Models that scripts may ask (walle.cloud), as walle-infer serves them (none)", GROUP_BOTH},
    {"cloud-ms", KEY_CLOUD_MS, "MS", 0, "How long such a call takes where it waits for nobody (60)",
     GROUP_BOTH},
    {"cloud-load", KEY_CLOUD_LOAD, "WORDS", 0,
     "How they are served: 'service_ms=20,instances=2,queue=256,per_min=600'; with MODEL. in "
     "front, of that one (0, nobody waits; 1; 256; 600 calls of a device a minute)",
     GROUP_BOTH},
    {"root", KEY_ROOT, "FILE", 0,
     "Root that every device is born with (of walle root init): who may sign what", GROUP_BOTH},
    {"threshold", KEY_THRESHOLD, "METRIC OP VALUE", 0,
     "What has to hold at the end, else the exit status is 99: 'checkin_p99<200ms', "
     "'failed_share<=1%', 'coverage>=99%'; the metrics are listed below; may be given again",
     GROUP_BOTH},
    {"junit", KEY_JUNIT, "FILE", 0,
     "Write the verdict there as JUnit XML: a case for each invariant, each threshold and the goal",
     GROUP_BOTH},
    {"metrics", KEY_METRICS, "[ADDRESS:]PORT", 0,
     "Serve live metrics for Prometheus there, GET /metrics (127.0.0.1; 0: a free port)",
     GROUP_BOTH},
    {"no-live", KEY_NO_LIVE, 0, 0, "A line every few seconds instead of the live view", GROUP_BOTH},
    {0, 0, 0, 0, "run, against a gateway:", GROUP_RUN},
    {"gateway", KEY_GATEWAY, "URL", 0, "https://HOST:PORT, or http://HOST:PORT for h2c", GROUP_RUN},
    {"virtual", KEY_VIRTUAL, "DIR", 0,
     "In virtual time, against the gateway's core in this process, which goes on from a copy of "
     "this data folder of a gateway that is not running",
     GROUP_RUN},
    {"strangers", KEY_STRANGERS, 0, 0,
     "In virtual time devices enrol by themselves, as a device with an enrolment token does; with "
     "this they show no credential, and a gate counts them with --trust-unproven alone",
     GROUP_RUN},
    {"zombies", KEY_ZOMBIES, "SHARE", 0, "Devices that come once and never again (0)", GROUP_RUN},
    {"clones", KEY_CLONES, "SHARE", 0, "Devices that have the id of another one (0)", GROUP_RUN},
    {"reinstalls", KEY_REINSTALLS, "SHARE", 0,
     "Devices that lose once all they stored, half of them to come back as another one (0)",
     GROUP_RUN},
    {"presence", KEY_PRESENCE, "always|day:H", 0,
     "Devices wake whenever they are due, or only while people have the app open, through their "
     "day from hour H of UTC (always)",
     GROUP_RUN},
    {"links", KEY_LINKS, "constant|network", 0,
     "In virtual time: all messages take 20 ms, or what each device's class of network takes, with "
     "loss, bandwidth and times without a link (constant)",
     GROUP_RUN},
    {"trace", KEY_TRACE, "SHARD:SECOND|device:N", 0,
     "Of a run in virtual time: write the events of that second down in DIR/trace.txt, and end "
     "with it; the shard behind the last one is the gateway's core. Or all that a device does and "
     "is told, in "
     "DIR/device.jsonl, as replay shows it",
     GROUP_RUN},
    {"act", KEY_ACT, "'SECOND DEED'", 0,
     "In virtual time, at that second: pause, resume, promote, abort or kill, an operator's word "
     "on the run's rollout; calm, no --fault from then on; or 'fault FAULT', one that devices meet "
     "from their next wake on; may be given again",
     GROUP_RUN},
    {"byte-devices", KEY_BYTE_DEVICES, "N", 0,
     "In virtual time: devices that speak real HTTP/2 and TLS to the gateway's own transport, "
     "at most 256 (0)",
     GROUP_RUN},
    {"again", KEY_AGAIN, "DIR", OPTION_HIDDEN, NULL, GROUP_RUN}, // of verify, diff, fork, replay
    {"again-to", KEY_AGAIN_TO, "SECOND", OPTION_HIDDEN, NULL, GROUP_RUN},
    {"gateway-tls", KEY_GATEWAY_TLS, "URL", 0, "Where dedicated connections go instead", GROUP_RUN},
    {"dedicated", KEY_DEDICATED, "K", 0, "Devices with a connection of their own (0)", GROUP_RUN},
    {"tasks", KEY_TASKS, "N", 0,
     "Tasks that a device holds at most, 1 to 64: what goes beyond is not offered to it (32, as a "
     "device by itself; 2 where more than 10000 are in memory at once, as with --hints)",
     GROUP_RUN},
    {"runs", KEY_RUNS, "K", 0,
     "Task runs at once on a device, 1 to 8: each takes as long as it says, and the device's "
     "scheduler chooses (1: no run takes time, so none waits)",
     GROUP_BOTH},
    {"per-carrier", KEY_PER_CARRIER, "N", 0, "Devices that share a connection (1000)", GROUP_RUN},
    {"trust", KEY_TRUST, "HEX", 0,
     "Instead of a root: the one public key that releases are signed with", GROUP_RUN},
    {"duration", KEY_DURATION, "SECONDS", 0, "End after this long", GROUP_RUN},
    {"until-coverage", KEY_COVERAGE, "SHARE", 0, "End when so many run --version", GROUP_RUN},
    {"version", KEY_VERSION, "SHA|X.Y.Z", 0, "Version the coverage is of (the newest)", GROUP_RUN},
    {"until-rollout", KEY_UNTIL_ROLLOUT, "ID", 0, "End when the rollout is over", GROUP_RUN},
    {"until-rest", KEY_UNTIL_REST, 0, 0,
     "With --faults-until, in virtual time: end when the faults and the rollout are over and every "
     "device has been where it should be for ten minutes",
     GROUP_RUN},
    {"own-signatures", KEY_OWN_SIGNATURES, 0, 0,
     "In virtual time: what the gateway's core signs in this run is known to be signed, and only "
     "other signatures are verified",
     GROUP_RUN},
    {"until-stopped", KEY_UNTIL_STOPPED, 0, 0,
     "SIGTERM or SIGINT is the end of the run then, and no interruption", GROUP_RUN},
    {"content-mib", KEY_CONTENT, "N", 0,
     "MiB of all that a device pulls, as the preflight counts it: each thread keeps it once, and "
     "so does each device that shares nothing (1; simulate knows)",
     GROUP_RUN},
    {"rollout", KEY_ROLLOUT, "ID", 0, "Rollout to show (the newest)", GROUP_RUN},
    {"session-every", KEY_SESSION_EVERY, "SECONDS", 0, "Mean time between two sessions (60)",
     GROUP_RUN},
    {"bad-version", KEY_BAD_VERSION, "SHA|X.Y.Z", 0,
     "Version that is bad: who ran it was harmed; may be given again", GROUP_RUN},
    {"max-exposed", KEY_MAX_EXPOSED, "SHARE", 0, "Fail when more devices ever ran a bad version",
     GROUP_RUN},
    {"hints", KEY_HINTS, 0, 0, "Every device keeps a hint stream open", GROUP_RUN},
    {"business", KEY_BUSINESS, "RATE", 0,
     "Requests a minute that each device's app makes to its service, through the gateway's proxy: "
     "check-ins and reports ride on them (0: none, devices check in by themselves)",
     GROUP_RUN},
    {"upstream", KEY_UPSTREAM, "PORT", 0,
     "Be that service: answer at http://127.0.0.1:PORT, which the gateway's proxy.upstream names",
     GROUP_RUN},
    {"request-timeout", KEY_TIMEOUT, "MS", 0, "Of the runtime (its default)", GROUP_RUN},
    {"retry-base", KEY_RETRY, "MS", 0, "Least wait after a failed request (the runtime's default)",
     GROUP_RUN},
    {"enroll-token", KEY_ENROL, "FILE", 0,
     "Enrolment token: devices without a credential enrol before anything else", GROUP_RUN},
    {"credentials", KEY_CREDENTIALS, "FILE", 0,
     "The devices' credentials, all in one file, which a next run finds again (with an enrolment "
     "token: credentials in the folder of --out)",
     GROUP_RUN},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0,
     "Operator's token (role viewer) to watch the rollout with, on a gateway that asks for one",
     GROUP_RUN},
    {"checkin-interval", KEY_INTERVAL, "SECONDS", 0,
     "Between check-ins, whatever the gateway says (as it says)", GROUP_RUN},
    {0, 0, 0, 0, "simulate, in this process:", GROUP_SIMULATE},
    {"manifest", KEY_MANIFEST, "FILE", 0, "Manifest instead of --task", GROUP_SIMULATE},
    {"blobs", KEY_BLOBS, "DIR", 0, "Folder with the files, named by hash", GROUP_SIMULATE},
    {"exclusive", KEY_EXCLUSIVE, "SHARE", 0,
     "Devices that belong to a user with exclusive files, where the version has some (50%)",
     GROUP_SIMULATE},
    {"target", KEY_TARGET, "EXPR", 0,
     "Draw only devices that this expression of a rollout's targeting language means",
     GROUP_SIMULATE},
    {"evidence", KEY_EVIDENCE, "FILE", 0,
     "Write signed evidence of the run there (walle rollout start --evidence)", GROUP_SIMULATE},
    {"evidence-key", KEY_EVIDENCE_KEY, "FILE", 0,
     "Private key that signs it: a release key of the root (walle key new)", GROUP_SIMULATE},
    {"max-failure", KEY_MAX_FAILURE, "SHARE", 0, "Exit 1 when more devices failed (1%)",
     GROUP_SIMULATE},
    {0, 0, 0, 0, 0, 0},
};

const struct argp_option *sim_options_table(void)
{
    return table;
}

#define AT(member) offsetof(struct sim_options, member)

// Options that have a whole number.
static const struct number_option {
    int key;
    const char *name;
    struct sim_range range;
    size_t at; // a uint32_t of struct sim_options
} number_options[] = {
    {KEY_DEVICES, "devices", {1, SIM_DEVICES_MAX}, AT(devices)},
    {KEY_FIRST_DEVICE, "first-device", {0, SIM_DEVICES_MAX}, AT(first_device)},
    {KEY_THREADS, "threads", {1, SIM_THREADS_MAX}, AT(threads)},
    {KEY_REAL_EVERY, "real-every", {0, UINT32_MAX}, AT(real_every)},
    {KEY_AWAKE, "awake", {1, SIM_DEVICES_MAX}, AT(awake_max)},
    {KEY_TASKS, "tasks", {1, DEV_TASKS_MAX}, AT(tasks)},
    {KEY_RUNS, "runs", {1, SIM_RUNS_AT_ONCE}, AT(runs)},
    {KEY_CLOCK_OFF, "clock-off", {1, SIM_CLOCK_OFF_DAYS_MAX}, AT(clock_off_days)},
    {KEY_CLOUD_MS, "cloud-ms", {1, 60000}, AT(cloud_ms)},
    {KEY_DEDICATED, "dedicated", {0, SIM_DEVICES_MAX}, AT(dedicated)},
    {KEY_PER_CARRIER, "per-carrier", {1, 60000}, AT(per_carrier)},
    {KEY_DURATION, "duration", {1, 1000000}, AT(duration_s)},
    {KEY_TIMEOUT, "request-timeout", {1, 3600000}, AT(request_timeout_ms)},
    {KEY_RETRY, "retry-base", {1, 300000}, AT(retry_base_ms)},
    {KEY_INTERVAL, "checkin-interval", {1, 86400}, AT(checkin_interval_s)},
    {KEY_SESSIONS, "sessions", {0, 1000000}, AT(sessions)},
    {KEY_SESSION_EVERY, "session-every", {1, 86400}, AT(session_every_s)},
    {KEY_ACTIVE, "active", {1, SIM_ACTIVE_MAX}, AT(active_max)},
    {KEY_FAULTS_UNTIL, "faults-until", {1, 1000000}, AT(faults.until_s)},
    {KEY_AGAIN_TO, "again-to", {1, 1000000}, AT(again_to_s)},
    {KEY_BYTE_DEVICES, "byte-devices", {0, SIM_BYTE_DEVICES_MAX}, AT(byte_devices)},
    {KEY_CONTENT, "content-mib", {1, SIM_CONTENT_MIB_MAX}, AT(content_mib)},
};

static const struct number_option *number_option(int key)
{
    for (size_t i = 0; i < sizeof(number_options) / sizeof(number_options[0]); i++) {
        if (number_options[i].key == key) {
            return &number_options[i];
        }
    }
    return NULL;
}

// Options that are kept as they are written.
static const struct text_option {
    int key;
    const char *name;
    size_t at; // a char[SIM_TEXT_MAX] of struct sim_options
} text_options[] = {
    {KEY_CREDENTIALS, "credentials", AT(credentials)},
    {KEY_VIRTUAL, "virtual", AT(virtual_dir)},
    {KEY_VERSION, "version", AT(version)},
    {KEY_JUNIT, "junit", AT(junit)},
    {KEY_OUT, "out", AT(out)},
    {KEY_AGAIN, "again", AT(again)},
    {KEY_POPULATION, "population", AT(population)},
    {KEY_GIVE, "give", AT(give)},
    {KEY_CLOUD_MODELS, "cloud-models", AT(cloud_models)},
    {KEY_CLOUD_LOAD, "cloud-load", AT(cloud_load)},
    {KEY_EVIDENCE, "evidence", AT(evidence)},
    {KEY_EVIDENCE_KEY, "evidence-key", AT(evidence_key)},
    {KEY_MANIFEST, "manifest", AT(manifest)},
    {KEY_BEHAVIOUR, "behaviour", AT(behaviour)},
    {KEY_BLOBS, "blobs", AT(blobs)},
};

static const struct text_option *text_option(int key)
{
    for (size_t i = 0; i < sizeof(text_options) / sizeof(text_options[0]); i++) {
        if (text_options[i].key == key) {
            return &text_options[i];
        }
    }
    return NULL;
}

// Options about who the devices are and when they come.
static error_t on_people_option(int key, const char *value, struct sim_parse *parse)
{
    switch (key) {
    case KEY_RATE:
        parse->out->arrivals_shape[0] = '\0'; // what is said last holds
        return sim_take_rate(parse, value);
    case KEY_ARRIVALS:
        return sim_take_arrivals(parse, value);
    case KEY_ZOMBIES:
        return sim_take_share(parse, "zombies", value, &parse->out->zombie_ppm);
    case KEY_PANEL:
        return sim_take_share(parse, "panel", value, &parse->out->panel_ppm);
    case KEY_CLONES:
        return sim_take_share(parse, "clones", value, &parse->out->clone_ppm);
    case KEY_REINSTALLS:
        return sim_take_share(parse, "reinstalls", value, &parse->out->reinstall_ppm);
    case KEY_PRESENCE:
        return sim_take_presence(parse, value);
    case KEY_LINKS:
        return sim_take_links(parse, value);
    case KEY_SCENARIO:
        return 0; // it was read before
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// Options that have a number, a share or a switch.
static error_t on_plain_option(int key, const char *value, struct sim_parse *parse)
{
    struct sim_options *options = parse->out;
    uint32_t share = 0;
    error_t failed;
    const struct number_option *number = number_option(key);
    if (number != NULL) {
        uint32_t *out = (uint32_t *)(void *)((char *)options + number->at);
        return sim_take_u32(parse, number->name, value, number->range, out);
    }
    const struct text_option *text = text_option(key);
    if (text != NULL) {
        return sim_take_text(parse, text->name, value, (char *)options + text->at);
    }
    switch (key) {
    case KEY_SEED:
        return sim_take_number(parse, "seed", value, (struct sim_range){0, UINT64_MAX},
                               &options->seed);
    case KEY_BETA:
        failed = sim_take_share(parse, "beta", value, &share);
        options->beta_per_10000 = share / 100;
        return failed;
    case KEY_KILLS:
        return sim_take_share(parse, "kills", value, &options->kill_ppm);
    case KEY_WRONG_CLOCKS:
        return sim_take_share(parse, "wrong-clocks", value, &options->wrong_clock_ppm);
    case KEY_COVERAGE:
        return sim_take_share(parse, "until-coverage", value, &options->coverage_ppm);
    case KEY_UNTIL_ROLLOUT:
        return sim_take_id(parse, "until-rollout", value, &options->until_rollout);
    case KEY_ROLLOUT:
        return sim_take_id(parse, "rollout", value, &options->rollout);
    case KEY_MAX_EXPOSED:
        return sim_take_share(parse, "max-exposed", value, &options->max_exposed_ppm);
    case KEY_EXCLUSIVE:
        return sim_take_share(parse, "exclusive", value, &options->exclusive_ppm);
    case KEY_MAX_FAILURE:
        return sim_take_share(parse, "max-failure", value, &options->max_failure_ppm);
    case KEY_UNTIL_STOPPED:
        options->until_stopped = true;
        return 0;
    case KEY_UNTIL_REST:
        options->until_rest = true;
        return 0;
    case KEY_NO_LIVE:
        options->live = false;
        return 0;
    case KEY_OWN_SIGNATURES:
        options->own_signatures = true;
        return 0;
    case KEY_STRANGERS:
        options->strangers = true;
        return 0;
    case KEY_HINTS:
        options->hints = true;
        return 0;
    default:
        return on_people_option(key, value, parse);
    }
}

// An option of the other command would not be looked at.
static error_t refuse_other(struct sim_parse *parse, int key)
{
    const struct argp_option *row = table;
    bool local = parse->out->local;
    while (row->key != key && (row->name != NULL || row->doc != NULL)) {
        row++;
    }
    if (row->name == NULL || row->group != (local ? GROUP_RUN : GROUP_SIMULATE)) {
        return 0;
    }
    (void)base_error_set(parse->error, BASE_ERR_INVALID, "--%s is for %s", row->name,
                         local ? "run: simulate has no gateway" : "simulate");
    return EINVAL;
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct sim_parse *parse = state->input;
    struct sim_options *options = parse->out;
    if (refuse_other(parse, key) != 0) {
        return EINVAL;
    }
    switch (key) {
    case KEY_GATEWAY:
        return sim_take_url(parse, "gateway", value,
                            (struct sim_url_place){options->host, &options->port, &options->tls});
    case KEY_GATEWAY_TLS:
        return sim_take_url(
            parse, "gateway-tls", value,
            (struct sim_url_place){options->own_host, &options->own_port, &options->own_tls});
    case KEY_TRUST:
        return sim_take_key(parse, value);
    case KEY_ROOT:
        return sim_take_root(parse, value);
    case KEY_ENROL:
        return sim_take_token(parse, "enroll-token", value, options->enrol_token);
    case KEY_TOKEN_FILE:
        return sim_take_token(parse, "token-file", value, options->token);
    case KEY_TRACE:
        return sim_take_trace(parse, value);
    case KEY_BUSINESS:
        return sim_take_business(parse, value);
    case KEY_UPSTREAM:
        return sim_take_port(parse, value);
    case KEY_BAD:
        return sim_take_rule(parse, value);
    case KEY_FAULT:
        return sim_take_fault(parse, value);
    case KEY_ACT:
        return sim_take_act(parse, value);
    case KEY_METRICS:
        return sim_take_metrics(parse, value);
    case KEY_THRESHOLD:
        return sim_take_threshold(parse, value);
    case KEY_BAD_VERSION:
        return sim_take_bad_version(parse, value);
    case KEY_TASK:
        parse->task = value;
        return 0;
    case KEY_WHERE:
        parse->words.where = value;
        return sim_take_where(parse, value);
    case KEY_TARGET:
        return sim_take_target(parse, value);
    case ARGP_KEY_ARG:
        return sim_option_refuse(parse, "", value, "a word that is no option");
    default:
        return on_plain_option(key, value, parse);
    }
}

void sim_options_done(struct sim_options *options)
{
    sim_people_free(options->people);
    options->people = NULL;
    sim_arrivals_free(options->arrivals);
    options->arrivals = NULL;
    free(options->target_program);
    options->target_program = NULL;
    options->target = NULL;
}

static void defaults(struct sim_options *options)
{
    memset(options, 0, sizeof(*options));
    options->devices = 1000;
    options->seed = 1;
    options->threads = 1;
    options->real_every = REAL_EVERY_DEFAULT;
    options->awake_max = SIM_AWAKE_DEFAULT;
    options->arrival_rate = RATE_DEFAULT;
    options->beta_per_10000 = 100;
    options->per_carrier = PER_CARRIER_DEFAULT;
    options->content_mib = 1;
    options->max_exposed_ppm = UINT32_MAX;
    options->max_failure_ppm = 10000;
    options->exclusive_ppm = 500000;
    options->clock_off_days = SIM_CLOCK_OFF_DAYS;
    options->cloud_ms = SIM_CLOUD_MS_DEFAULT;
    options->live = true;
    options->session_every_s = SIM_SESSION_EVERY_S;
    options->active_max = SIM_ACTIVE_DEFAULT;
    options->panel_ppm = SIM_PANEL_ALL;
    (void)snprintf(options->out, sizeof(options->out), "out/fleet");
}

static enum base_status check_local(struct sim_parse *parse)
{
    struct sim_options *options = parse->out;
    if (parse->task != NULL) {
        int a = snprintf(options->manifest, sizeof(options->manifest), "%s/manifest", parse->task);
        int b = snprintf(options->blobs, sizeof(options->blobs), "%s/blobs", parse->task);
        if (a < 0 || b < 0 || (size_t)a >= sizeof(options->manifest) ||
            (size_t)b >= sizeof(options->blobs)) {
            return base_error_set(parse->error, BASE_ERR_INVALID, "--task: path too long");
        }
    }
    if (options->manifest[0] == 0 || options->blobs[0] == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "simulate needs --task DIR, or --manifest FILE and --blobs DIR");
    }
    options->tasks = SIM_TASKS_MANY; // there is one
    options->content_mib = sim_local_content_mib(options->manifest);
    if (options->bad.rule_count > 0) {
        // In the simulate stage there is one version, and the rules are about it.
        (void)snprintf(options->bad_versions[0], SIM_TEXT_MAX, "*");
        options->bad_version_count = 1;
    }
    BASE_TRY(sim_check_evidence(options, &parse->words, parse->error));
    if (options->sessions == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "simulate needs --sessions N above 0, or --behaviour none");
    }
    BASE_TRY(sim_check_somebody(options, &parse->words, parse->error));
    BASE_TRY(sim_check_faults(options, &parse->words, parse->error));
    return sim_check_rules(options, &parse->words, parse->error);
}

static enum base_status check_run(struct sim_parse *parse)
{
    struct sim_options *options = parse->out;
    if (parse->task != NULL && sim_take_text(parse, "task", parse->task, options->task) != 0) {
        return BASE_ERR_INVALID;
    }
    if (options->host[0] == 0 && options->virtual_dir[0] == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "run needs --gateway URL, or --virtual DIR");
    }
    BASE_TRY(sim_check_virtual(options, parse->error));
    options->enrols =
        options->enrol_token[0] != '\0' || (options->virtual_dir[0] != '\0' && !options->strangers);
    if (options->has_key == (options->root_bytes > 0)) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "run needs either --root FILE, which says who may sign what, or "
                              "--trust HEX, the one key that releases are signed with");
    }
    if (options->bad.rule_count > 0 && options->bad_version_count == 0) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "--bad needs --bad-version: the version that goes wrong");
    }
    if (options->enrol_token[0] != '\0' && options->credentials[0] == '\0') {
        int size = snprintf(options->credentials, sizeof(options->credentials), "%s/credentials",
                            options->out);
        if (size < 0 || (size_t)size >= sizeof(options->credentials)) {
            return base_error_set(parse->error, BASE_ERR_INVALID, "--out: path too long");
        }
    }
    if (options->upstream_port != 0 && !(options->business_rate > 0)) {
        return base_error_set(parse->error, BASE_ERR_INVALID,
                              "--upstream answers business requests: --business says how many");
    }
    if (options->tasks == 0) {
        options->tasks =
            sim_options_slots(options) > SIM_TASKS_AWAKE_MAX ? SIM_TASKS_MANY : DEV_TASKS_DEFAULT;
    }
    if (options->token[0] == '\0') {
        sim_find_token(options);
    }
    if (options->hints && options->per_carrier == PER_CARRIER_DEFAULT) {
        options->per_carrier = PER_CARRIER_DEFAULT / 2; // hint streams take half of the streams
    }
    BASE_TRY(sim_check_somebody(options, &parse->words, parse->error));
    return sim_check_faults(options, &parse->words, parse->error);
}

// A run that is played again, whatever its words and its scenario say, writes into that folder
// alone.
static void again(struct sim_options *options)
{
    if (options->again[0] == '\0') {
        return;
    }
    memcpy(options->out, options->again, sizeof(options->out));
    options->junit[0] = '\0';
    options->metrics_address[0] = '\0';
    options->live = false;
    if (options->again_to_s > 0) {
        options->duration_s = options->again_to_s;
        options->rollout = options->until_rollout != 0 ? options->until_rollout : options->rollout;
        options->until_rollout = 0;
        options->coverage_ppm = 0;
    }
}

static enum base_status check(struct sim_parse *parse)
{
    again(parse->out);
    BASE_TRY(sim_check_junit(parse->out, parse->error));
    BASE_TRY(sim_option_people(parse->out, parse->error));
    return parse->out->local ? check_local(parse) : check_run(parse);
}

// What follows the options: the words of the parser, and the metrics that thresholds name.
static char *help_text(int key, const char *text, void *input)
{
    (void)input;
    char *whole = key == ARGP_KEY_HELP_POST_DOC ? malloc(HELP_BYTES_MAX) : NULL;
    if (whole == NULL) {
        return (char *)(uintptr_t)text;
    }
    int used = snprintf(whole, HELP_BYTES_MAX,
                        "%s\n\nMetrics of --threshold; of a latency PART is p50, p90, p99, p999, "
                        "max or mean, and its value has us, ms, s or m:\n",
                        text != NULL ? text : "");
    size_t at = used > 0 && used < HELP_BYTES_MAX ? (size_t)used : 0;
    sim_thresholds_help(whole + at, HELP_BYTES_MAX - at);
    at += strlen(whole + at);
    sim_faults_help(whole + at, HELP_BYTES_MAX - at);
    return whole; // argp frees it
}

enum base_status sim_options_parse(int argc, char **argv, struct sim_options *out,
                                   struct base_error *error)
{
    defaults(out);
    sim_take_command(argc, argv, out);
    sim_repro_write(argc, argv, out->repro);
    if (argc >= 2 && strcmp(argv[1], "simulate") == 0) {
        out->local = true;
        out->arrival_rate = 1e6;
        out->sessions = SIM_SESSIONS_LOCAL;
        (void)snprintf(out->behaviour, sizeof(out->behaviour), "triggers");
    } else if (argc < 2 || (strcmp(argv[1], "run") != 0 && strcmp(argv[1], "--help") != 0)) {
        return base_error_set(error, BASE_ERR_INVALID, "the first word is one of %s (see --help)",
                              COMMANDS);
    } else {
        out->installation = base_entropy_u64();
    }
    bool help = strcmp(argv[1], "--help") == 0;
    const struct argp parser = {
        table,
        on_option,
        help ? COMMANDS : NULL,
        "Virtual devices, each the real device runtime, against a gateway (run) or in this process "
        "(simulate); the others have a --help of their own.\vExamples:\n"
        "  walle-fleet-sim simulate --task BUILD --devices 1000 --out out/simulate\n"
        "  walle-fleet-sim run --devices 100000 --gateway http://127.0.0.1:8080 \\\n"
        "      --enroll-token gateway/enroll.token --root root.1 --hints\n\n"
        "Exit status: 0 passed: the release did what it was to do, and every invariant held; "
        "1 an invariant broke, the release failed, or a goal was missed; "
        "2 usage, 3 refused by the preflight, 4 files or memory, "
        "5 interrupted by a signal before its end: neither passed nor failed, "
        "6 no device is like --where and --target, or of a simulation like a rule of --bad, "
        "7 no gateway answered, "
        "8 nobody came online, 9 no release reached anybody, "
        "10 there was no release: nothing was there to be judged, "
        "11 a release ran on devices, and its gate counts none of them, "
        "99 all else passed, and a --threshold does not hold.",
        NULL,
        help_text,
        NULL};
    struct sim_parse parse = {.out = out, .error = error};
    struct sim_scenario scenario = {
        .table = table, .key = KEY_SCENARIO, .take = on_option, .input = &parse, .error = error};
    char **words = help ? argv : argv + 1;
    int count = help ? argc : argc - 1;
    static char run[] = "walle-fleet-sim run";
    static char simulate[] = "walle-fleet-sim simulate";
    words[0] = help ? words[0] : out->local ? simulate : run; // as the help calls itself
    argp_err_exit_status = SIM_EXIT_USAGE; // what argp itself refuses ends the process
    program_invocation_short_name = help ? program_invocation_short_name : words[0];
    if (!base_options_known(table, count, words)) {
        exit(SIM_EXIT_USAGE); // as where argp refuses
    }
    struct argp first = parser;
    first.parser = sim_scenario_given;
    (void)argp_parse(&first, count, words, 0, NULL, &scenario);
    enum base_status status = sim_scenario_read(&scenario);
    if (status == BASE_OK && argp_parse(&parser, count, words, 0, NULL, &parse) != 0) {
        status = error->status != BASE_OK
                     ? BASE_ERR_INVALID
                     : base_error_set(error, BASE_ERR_INVALID, "unknown option (see --help)");
    }
    status = status == BASE_OK ? check(&parse) : status;
    sim_scenario_done(&scenario);
    return status;
}
