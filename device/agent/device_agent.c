// walle-device: the device runtime as a Linux program, on the posix port.
//
// One process is one device. It prints a line per task result on standard output and logs to
// standard error; SIGTERM and SIGINT end it in order. Everything runs on the main thread but the
// scripts, which have processes of their own (device/port/posix/run/posix_child.c), and the thread
// that listens to those.
#include "agent_blobs.h"
#include "agent_descriptors.h"
#include "agent_faults.h"
#include "agent_isolation.h"
#include "agent_once.h"
#include "agent_quiet.h"
#include "agent_root.h"
#include "agent_status.h"
#include "agent_summary.h"
#include "agent_url.h"
#include "attr_option.h"
#include "number_option.h"
#include "event_source.h"
#include "base/clock.h"
#include "base/text/near_option.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"

#include "device/cloud.h"
#include "posix/posix_enroll.h"
#include "posix/posix_pipeline.h"
#include "posix/posix_port.h"

#include "base/os/private_file.h"
#include "base/os/regular_file.h"
#include "base/prng.h"
#include "vm/vm.h"
#include "wire/trust/root.h"

#include <argp.h>
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CRASH_LIMIT          3 // a kill from outside during a trial run looks like a crash of the version
#define CLOUD_CALLS_MAX      DEV_CLOUD_CALLS_MAX // a run makes one at a time
#define EXIT_BAD_ARGS        2
#define EXIT_UNSENT          3
#define TOKEN_TEXT_MAX       256
#define ENROLL_WAIT_FIRST_MS 1000u
#define ENROLL_WAIT_MAX_MS   60000u
#define DELTA_MEMORY_MIB_MAX 1024u
#define RUN_MEMORY_MIB_MAX   (1024u * 1024u)
#define STATUS_UNAUTHORIZED  401

enum {
    OPTION_CA = 256,
    OPTION_INSECURE,
    OPTION_DIR,
    OPTION_ID,
    OPTION_ATTR,
    OPTION_TRUST,
    OPTION_ROOT,
    OPTION_MIRROR,
    OPTION_TIMEOUT,
    OPTION_RETRY,
    OPTION_THRESHOLD,
    OPTION_INTERVAL,
    OPTION_ONCE,
    OPTION_HINTS,
    OPTION_CRASH_LIMIT,
    OPTION_ENROLL,
    OPTION_CERTIFICATE,
    OPTION_CERTIFICATE_KEY,
    OPTION_EVENTS,
    OPTION_GIVE,
    OPTION_ISOLATION,
    OPTION_RUNNER,
    OPTION_RUNS,
    OPTION_RUN_MEMORY,
    OPTION_DELTA_MEMORY,
    OPTION_TASKS,
    OPTION_LEAVES_REQUIRED,
    OPTION_STATUS,
    OPTION_JSON,
};

struct agent {
    struct posix_options options;
    char host[AGENT_URL_HOST_MAX];
    char mirror_hosts[POSIX_MIRRORS_MAX][AGENT_URL_HOST_MAX];
    uint8_t root[WIRE_META_BYTES_MAX];
    bool have_gateway;
    bool have_id;
    bool insecure;
    bool once;
    struct agent_once end;
    bool unsent; // --once ended, and something is not with the gateway
    bool looks;  // at that, soon
    struct agent_faults faults;
    bool verbose;
    bool json;
    const char *status_dir; // the folder to look at, instead of a run
    bool stopping;
    bool failed;
    bool enrol_anew;  // the port ends, for that
    bool enrol_tried; // since a check-in was answered
    const char *enroll_token_path;
    const char *events_path;
    struct agent_isolation isolation;
    struct agent_blobs given;
    struct event_source *events;
    struct posix_credential credential;
    struct event_base *base;
    struct base_log log;
    struct agent_quiet quiet; // behind `log`
    struct posix_port *port;
    struct agent_phases phases;
};

static const struct argp_option options[] = {
    {"gateway", 'g', "URL", 0, "gateway, as in https://127.0.0.1:8443", 0},
    {"ca", OPTION_CA, "FILE", 0, "certificate (PEM) the gateway's is verified with", 0},
    {"insecure", OPTION_INSECURE, NULL, 0, "do not verify the gateway's certificate", 0},
    {"dir", OPTION_DIR, "DIR", 0, "folder of this device's state and content", 0},
    {"id", OPTION_ID, "HEX16", 0, "device id, 16 hex digits", 0},
    {"attr", OPTION_ATTR, "NAME=VALUE", 0, "attribute, as in os=android; repeat for more", 0},
    {"trust", OPTION_TRUST, "KEY", 0, "trusted release key: 64 hex digits or a file with them", 0},
    {"root", OPTION_ROOT, "FILE", 0,
     "root the device is born with (walle root init makes one); instead of --trust", 0},
    {"threshold", OPTION_THRESHOLD, "N", 0, "trusted keys that must sign (1)", 0},
    {"checkin-interval", OPTION_INTERVAL, "SECONDS", 0,
     "between check-ins, whatever the gateway says (as it says; 300 until it does)", 0},
    {"tasks", OPTION_TASKS, "N", 0, "tasks it holds at most, a shadow is one more (32; 64 at most)",
     0},
    {"crash-limit", OPTION_CRASH_LIMIT, "N", 0,
     "runs on trial that may end with the process before a version is given up (3)", 0},
    {"enroll-token", OPTION_ENROLL, "FILE", 0,
     "enrol with the token in FILE, once; the credential is kept in --dir", 0},
    {"cert", OPTION_CERTIFICATE, "FILE", 0, "client certificate (PEM) shown to the gateway", 0},
    {"cert-key", OPTION_CERTIFICATE_KEY, "FILE", 0, "its private key (PEM)", 0},
    {"mirror", OPTION_MIRROR, "URL", 0,
     "another place that serves content, asked before the gateway; repeat for more", 0},
    {"request-timeout", OPTION_TIMEOUT, "MILLISECONDS", 0,
     "without an answer, or with less than 4 KiB of one (30000)", 0},
    {"retry-base", OPTION_RETRY, "MILLISECONDS", 0,
     "least wait after a failed request; failures in a row make it longer (1000)", 0},
    {"events", OPTION_EVENTS, "FILE", 0,
     "record behaviour events from FILE, JSON lines; - is standard input", 0},
    {"give", OPTION_GIVE, "NAME=PATH", 0,
     "file a run gets as walle.blob(NAME); of a folder another each run; repeat for more", 0},
    {"isolation", OPTION_ISOLATION, "KIND", 0,
     "where scripts run: process (each run in one of its own, behind a wall) or thread (process)",
     0},
    {"task-runner", OPTION_RUNNER, "FILE", 0,
     "program of those processes (walle-task-runner beside this one)", 0},
    {"runs", OPTION_RUNS, "N", 0, "runs of tasks at once (as many as cores, at least 2)", 0},
    {"run-memory", OPTION_RUN_MEMORY, "MIB", 0, "memory for them, all together (200)", 0},
    {"delta-memory", OPTION_DELTA_MEMORY, "MIB", 0,
     "memory for decoding a delta; those that need more come otherwise, or whole (130)", 0},
    {"leaves-required", OPTION_LEAVES_REQUIRED, NULL, 0,
     "take no version that does not say what may leave the device", 0},
    {"hints", OPTION_HINTS, NULL, 0, "keep a hint stream open", 0},
    {"once", OPTION_ONCE, NULL, 0,
     "end when a check-in was answered, all events are handled, what is to be uploaded is sent or "
     "refused, and nothing is left to do",
     0},
    {"status", OPTION_STATUS, "DIR", 0,
     "say what the folder of a device holds, while its agent runs or not, and end", 0},
    {"json", OPTION_JSON, NULL, 0, "with --status: as JSON", 0},
    {"verbose", 'v', NULL, 0, "log details", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

// ---- Arguments

static void url_parse(struct argp_state *state, const char *option, const char *text,
                      char host_out[AGENT_URL_HOST_MAX], struct posix_mirror *out)
{
    const char *wrong = agent_url_parse(text, host_out, out);
    if (wrong != NULL) {
        argp_error(state, "--%s: '%s' %s", option, text, wrong);
    }
}

static void gateway_parse(struct argp_state *state, struct agent *agent, const char *text)
{
    struct posix_mirror gateway = {.tls = false};
    url_parse(state, "gateway", text, agent->host, &gateway);
    agent->options.host = gateway.host;
    agent->options.port = gateway.port;
    agent->options.tls = gateway.tls;
    agent->have_gateway = true;
}

static void mirror_parse(struct argp_state *state, struct agent *agent, const char *text)
{
    uint32_t at = agent->options.mirror_count;
    if (at == POSIX_MIRRORS_MAX) {
        argp_error(state, "--mirror: more than %d", POSIX_MIRRORS_MAX);
        return;
    }
    url_parse(state, "mirror", text, agent->mirror_hosts[at], &agent->options.mirrors[at]);
    agent->options.mirror_count++;
}

static void trust_parse(struct argp_state *state, struct agent *agent, const char *text)
{
    struct base_error error = {0};
    struct dev_config *config = &agent->options.config;
    if (config->trusted_key_count == DEV_TRUSTED_KEYS_MAX) {
        argp_error(state, "--trust: more than %d keys", DEV_TRUSTED_KEYS_MAX);
    } else if (agent_key_read(text, config->trusted_keys[config->trusted_key_count], &error) !=
               BASE_OK) {
        argp_error(state, "--trust: %s", error.text);
    } else {
        config->trusted_key_count++;
    }
}

static void root_parse(struct argp_state *state, struct agent *agent, const char *path)
{
    struct base_error error = {0};
    struct dev_config *config = &agent->options.config;
    if (agent_root_read(path, agent->root, &config->root_bytes, &error) != BASE_OK) {
        argp_error(state, "--root: %s", error.text);
        return;
    }
    config->root = agent->root;
}

// Who reads the key is the device, to every gateway.
static void key_check(struct argp_state *state, const char *path)
{
    struct base_error error = {0};
    int fd = -1;
    if (base_private_open(path, false, &fd, &error) != BASE_OK) {
        argp_error(state, "--cert-key: %s", error.text);
        return;
    }
    close(fd);
}

static void arguments_check(struct argp_state *state, const struct agent *agent)
{
    if (agent->status_dir != NULL) {
        return;
    }
    if (agent->json) {
        argp_error(state, "--json goes with --status");
    }
    if (!agent->have_gateway || agent->options.dir == NULL) {
        argp_error(state, "--gateway and --dir are needed");
    }
    if ((agent->options.certificate_path != NULL) !=
        (agent->options.certificate_key_path != NULL)) {
        argp_error(state, "--cert and --cert-key go together");
    }
    if (agent->options.certificate_key_path != NULL) {
        key_check(state, agent->options.certificate_key_path);
    }
    if (agent->options.tls && !agent->insecure && agent->options.ca_pem_path == NULL) {
        argp_error(state, "with https, --ca or --insecure is needed");
    }
    if (agent->options.config.trusted_key_count == 0 && agent->options.config.root == NULL) {
        argp_error(state, "--root or --trust is needed: otherwise no task could ever run");
    }
}

// How gateway and device know each other.
static bool who_parse(int key, char *text, struct agent *agent)
{
    switch (key) {
    case OPTION_CA:
        agent->options.ca_pem_path = text;
        return true;
    case OPTION_INSECURE:
        agent->insecure = true;
        return true;
    case OPTION_ENROLL:
        agent->enroll_token_path = text;
        return true;
    case OPTION_CERTIFICATE:
        agent->options.certificate_path = text;
        return true;
    case OPTION_CERTIFICATE_KEY:
        agent->options.certificate_key_path = text;
        return true;
    default:
        return false;
    }
}

// Where scripts run, how many at once, with how much memory.
static bool isolation_parse(int key, char *text, struct argp_state *state)
{
    struct agent *agent = state->input;
    struct dev_config *config = &agent->options.config;
    if (key == OPTION_RUNS) {
        config->runs_max = (uint32_t)number_option(state, "runs", text, DEV_RUNS_MAX);
    } else if (key == OPTION_RUN_MEMORY) {
        config->runs_memory_bytes = number_option(state, "run-memory", text, RUN_MEMORY_MIB_MAX)
                                    << 20;
    } else if (key == OPTION_RUNNER) {
        agent->isolation.runner_path = text;
    } else if (key == OPTION_ISOLATION &&
               !agent_isolation_set(&agent->isolation, base_str_of(text))) {
        argp_error(state, "--isolation: '%s' is neither process nor thread", text);
    }
    return key == OPTION_RUNNER || key == OPTION_ISOLATION || key == OPTION_RUNS ||
           key == OPTION_RUN_MEMORY;
}

// How content comes, and what is handed to tasks.
static bool content_parse(int key, char *text, struct argp_state *state)
{
    struct agent *agent = state->input;
    if (key == OPTION_MIRROR) {
        mirror_parse(state, agent, text);
    } else if (key == OPTION_DELTA_MEMORY) {
        agent->options.delta_memory =
            number_option(state, "delta-memory", text, DELTA_MEMORY_MIB_MAX) << 20;
    } else if (key == OPTION_GIVE) {
        agent_blobs_add(&agent->given, text, state);
    }
    return key == OPTION_MIRROR || key == OPTION_DELTA_MEMORY || key == OPTION_GIVE;
}

// How often it asks, how much it holds, and of what kind.
static bool pace_parse(int key, char *text, struct argp_state *state)
{
    struct agent *agent = state->input;
    struct dev_config *config = &agent->options.config;
    if (key == OPTION_INTERVAL) {
        config->checkin_interval_s =
            (uint32_t)number_option(state, "checkin-interval", text, 86400);
    } else if (key == OPTION_TASKS) {
        config->tasks_max = (uint32_t)number_option(state, "tasks", text, DEV_TASKS_MAX);
    } else if (key == OPTION_LEAVES_REQUIRED) {
        config->leaves_required = true;
    }
    return key == OPTION_INTERVAL || key == OPTION_TASKS || key == OPTION_LEAVES_REQUIRED;
}

// What is looked at instead of a run.
static bool status_parse(int key, char *text, struct agent *agent)
{
    if (key == OPTION_STATUS) {
        agent->status_dir = text;
    }
    agent->json = agent->json || key == OPTION_JSON;
    return key == OPTION_STATUS || key == OPTION_JSON;
}

static error_t argument_parse(int key, char *text, struct argp_state *state)
{
    struct agent *agent = state->input;
    struct dev_config *config = &agent->options.config;
    struct base_error error = {0};
    switch (key) {
    case 'g':
        gateway_parse(state, agent, text);
        break;
    case OPTION_DIR:
        agent->options.dir = text;
        break;
    case OPTION_ID:
        if (wire_device_parse(base_str_of(text), &config->device_id) != BASE_OK ||
            config->device_id == 0) {
            argp_error(state, "--id: '%s' is not 16 lower-case hex digits, one of them not 0",
                       text);
        }
        agent->have_id = true;
        break;
    case OPTION_ATTR:
        if (attr_option_add(text, &agent->options.config.attrs, &error) != BASE_OK) {
            argp_error(state, "--attr: %s", error.text);
        }
        break;
    case OPTION_TRUST:
        trust_parse(state, agent, text);
        break;
    case OPTION_TIMEOUT:
        config->request_timeout_ms =
            (uint32_t)number_option(state, "request-timeout", text, 3600000);
        break;
    case OPTION_RETRY:
        config->backoff_base_ms = (uint32_t)number_option(state, "retry-base", text, 300000);
        break;
    case OPTION_ROOT:
        root_parse(state, agent, text);
        break;
    case OPTION_THRESHOLD:
        config->signature_threshold =
            (uint32_t)number_option(state, "threshold", text, DEV_TRUSTED_KEYS_MAX);
        break;
    case OPTION_CRASH_LIMIT:
        config->crash_limit = (uint32_t)number_option(state, "crash-limit", text, UINT8_MAX);
        break;
    case OPTION_HINTS:
        config->hints = true;
        break;
    case OPTION_ONCE:
        agent->once = true;
        break;
    case OPTION_EVENTS:
        agent->events_path = text;
        break;
    case 'v':
        agent->verbose = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not expected", text);
        break;
    case ARGP_KEY_END:
        arguments_check(state, agent);
        break;
    default:
        return who_parse(key, text, agent) || isolation_parse(key, text, state) ||
                       content_parse(key, text, state) || pace_parse(key, text, state) ||
                       status_parse(key, text, agent)
                   ? 0
                   : ARGP_ERR_UNKNOWN;
    }
    return 0;
}

// ---- The run

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    struct agent *agent = app;
    agent_summary_result(agent->port, &agent->phases, &agent->log, task, end);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct agent *agent = arg;
    agent->looks = false;
    posix_port_wake(agent->port);
}

// The next tick may be far away.
static void look_soon(struct agent *agent)
{
    struct timeval wait = {.tv_sec = AGENT_ONCE_LOOK_S};
    agent->looks =
        agent->looks || event_base_once(agent->base, -1, EV_TIMEOUT, on_look, agent, &wait) == 0;
}

// Everything that was to be recorded was, and what came of it is at the gateway, or does not get
// there.
static void end_when_done(struct agent *agent)
{
    struct posix_pipeline *pipeline = posix_port_pipeline(agent->port);
    bool recorded =
        agent->events_path == NULL || (agent->events != NULL && event_source_ended(agent->events));
    if (!agent->once || !recorded || !dev_is_idle(posix_port_runtime(agent->port))) {
        return;
    }
    switch (agent_once_judge(&agent->end, posix_pipeline_is_idle(pipeline),
                             agent_summary_moved(pipeline), base_clock_mono_us())) {
    case AGENT_ONCE_WAITS:
        look_soon(agent);
        return;
    case AGENT_ONCE_LEFT:
        agent->unsent = true;
        break;
    case AGENT_ONCE_DONE:
    case AGENT_ONCE_END_COUNT:
    default:
        break;
    }
    event_base_loopbreak(agent->base);
}

// What was recorded last is handled in the next tick, which then sees whether that was all.
static void events_ended(void *ctx, bool broken)
{
    struct agent *agent = ctx;
    agent->failed = agent->failed || broken;
    posix_port_wake(agent->port);
}

// Events are read from when the first check-in's work is done, so that tasks are there to see them.
static void events_begin(struct agent *agent)
{
    struct base_error error = {0};
    struct event_source_options source = {
        .path = agent->events_path,
        .recorder = posix_port_recorder(agent->port),
        .log = &agent->log,
        .ctx = agent,
        .ended = events_ended,
    };
    if (event_source_new(agent->base, &source, &agent->events, &error) != BASE_OK) {
        base_log_error(&agent->log, "events", "%s", error.text);
        agent->failed = true;
        event_base_loopbreak(agent->base);
    }
}

// The credential is taken no more, as of a device that was reset: it enrols as at its first start,
// once; not while it plays events, which would be played twice.
static bool enrols_anew(struct agent *agent, const struct dev_stats *stats)
{
    agent->enrol_tried = agent->enrol_tried && stats->checkins == 0;
    agent->enrol_anew = stats->refused_status == STATUS_UNAUTHORIZED && !agent->enrol_tried &&
                        agent->faults.has_credential && agent->faults.can_enrol &&
                        agent->events == NULL;
    return agent->enrol_anew;
}

static void on_tick(void *app, struct dev_runtime *runtime)
{
    struct agent *agent = app;
    struct dev_stats stats;
    dev_stats(runtime, &stats);
    agent_faults_note(&agent->faults, &stats, &agent->log);
    if (enrols_anew(agent, &stats)) {
        event_base_loopbreak(agent->base);
        return;
    }
    if (agent->once && stats.refused_status != 0) {
        agent->failed = true;
        event_base_loopbreak(agent->base);
        return;
    }
    if (stats.checkins == 0) {
        return;
    }
    if (agent->events_path != NULL && agent->events == NULL && dev_is_idle(runtime)) {
        events_begin(agent);
    }
    end_when_done(agent);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    struct agent *agent = arg;
    agent->stopping = true;
    event_base_loopbreak(agent->base);
}

// ---- Enrolment

// First word of the token file. False: said why not.
static bool token_read(struct agent *agent, char out[TOKEN_TEXT_MAX])
{
    struct base_error error = {0};
    if (base_private_line(agent->enroll_token_path, false, out, TOKEN_TEXT_MAX, &error) !=
        BASE_OK) {
        base_log_error(&agent->log, "device", "--enroll-token: %s", error.text);
        return false;
    }
    out[strcspn(out, " \t")] = '\0';
    if (out[0] == '\0') {
        base_log_error(&agent->log, "device", "--enroll-token: no token in %s",
                       agent->enroll_token_path);
    }
    return out[0] != '\0';
}

static void on_waited(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    event_base_loopbreak(((struct agent *)arg)->base);
}

static void wait_a_while(struct agent *agent, uint32_t wait_ms)
{
    wait_ms = wait_ms / 2 + (uint32_t)(base_entropy_u64() % (wait_ms / 2 + 1));
    struct timeval wait = {.tv_sec = wait_ms / 1000,
                           .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000};
    struct event *timer = evtimer_new(agent->base, on_waited, agent);
    if (timer != NULL && evtimer_add(timer, &wait) == 0) {
        (void)event_base_dispatch(agent->base);
    }
    if (timer != NULL) {
        event_free(timer);
    }
}

// Asks until there is an answer; a refusal is one.
static enum base_status enrol(struct agent *agent)
{
    char token[TOKEN_TEXT_MAX];
    uint32_t wait_ms = ENROLL_WAIT_FIRST_MS;
    if (!token_read(agent, token)) {
        return BASE_ERR_INVALID;
    }
    for (;;) {
        struct base_error error = {0};
        enum base_status status = posix_enroll(agent->base, &agent->options, base_str_of(token),
                                               &agent->credential, &error);
        if (status == BASE_OK || agent->stopping) {
            return agent->stopping ? BASE_ERR_CLOSED : BASE_OK;
        }
        base_log_error(&agent->log, "device", "%s", error.text);
        if (agent->once || status == BASE_ERR_DENIED || status == BASE_ERR_INVALID) {
            return status;
        }
        wait_a_while(agent, wait_ms);
        wait_ms = wait_ms * 2 < ENROLL_WAIT_MAX_MS ? wait_ms * 2 : ENROLL_WAIT_MAX_MS;
    }
}

// The credential in the device's folder. A damaged one makes room for a new one where this device
// may ask for that: NOT_FOUND.
static enum base_status credential_load(struct agent *agent, struct base_error *error)
{
    const char *dir = agent->options.dir;
    enum base_status status = posix_credential_load(dir, &agent->credential, error);
    if (status != BASE_ERR_CORRUPT) {
        return status;
    }
    struct base_error why = *error;
    if (agent->enroll_token_path == NULL) {
        return base_error_set(
            error, status, "%.110s; --enroll-token FILE sets it aside and enrols anew", why.text);
    }
    BASE_TRY(posix_credential_set_aside(dir, error));
    base_log_warn(&agent->log, "device",
                  "%s; set aside as " POSIX_CREDENTIAL_ASIDE ", the device enrols anew", why.text);
    return BASE_ERR_NOT_FOUND;
}

// Who this device is: as enrolled, or as the command line says.
static bool identify(struct agent *agent)
{
    struct base_error error = {0};
    struct dev_config *config = &agent->options.config;
    enum base_status status = credential_load(agent, &error);
    if (status == BASE_ERR_NOT_FOUND && agent->enroll_token_path != NULL) {
        if (enrol(agent) != BASE_OK) {
            return false; // said
        }
        status = BASE_OK;
    }
    if (status == BASE_OK && agent->have_id && agent->credential.device_id != config->device_id) {
        base_log_error(&agent->log, "device", "--id differs from the id this device enrolled with");
        return false;
    }
    if (status == BASE_OK) {
        config->device_id = agent->credential.device_id;
        agent->options.credential = base_str_of(agent->credential.text);
        agent->faults.has_credential = true;
        return true;
    }
    if (status != BASE_ERR_NOT_FOUND) {
        base_log_error(&agent->log, "device", "%s", error.text);
        return false;
    }
    if (!agent->have_id) {
        base_log_error(&agent->log, "device", "--id or --enroll-token is needed");
    } else if (agent->options.certificate_path == NULL) {
        base_log_warn(
            &agent->log, "device",
            "not enrolled: no gate counts what this device reports (--enroll-token FILE)");
    }
    return agent->have_id;
}

// The device until it ends, with another credential where the one it has is taken no more. That one
// stays where it is until there is another. False: it could not begin, and the log says why.
static bool live(struct agent *agent)
{
    struct base_error error = {0};
    for (;;) {
        if (posix_port_new(agent->base, &agent->options, &agent->port, &error) != BASE_OK) {
            base_log_error(&agent->log, "device", "%s%s", error.text,
                           agent_isolation_hint(&agent->options, &error));
            return false;
        }
        (void)event_base_dispatch(agent->base);
        if (!agent->enrol_anew || agent->stopping) {
            return true;
        }
        posix_port_free(agent->port);
        agent->enrol_tried = true;
        agent->faults.failed_requests = 0;
        (void)enrol(agent); // a refusal of that is in the log
        if (agent->stopping) {
            return false;
        }
        agent->options.credential = base_str_of(agent->credential.text);
    }
}

static int agent_run(struct agent *agent)
{
    struct event *terminate = evsignal_new(agent->base, SIGTERM, on_signal, agent);
    struct event *interrupt = evsignal_new(agent->base, SIGINT, on_signal, agent);
    int result = EXIT_FAILURE;
    if (terminate != NULL && interrupt != NULL && event_add(terminate, NULL) == 0 &&
        event_add(interrupt, NULL) == 0) {
        if (identify(agent) && agent_root_keep(&agent->options, &agent->log) && live(agent)) {
            agent_summary_print(agent->port, &agent->phases, agent->events, &agent->log);
            if (agent->unsent) {
                agent_summary_left(posix_port_pipeline(agent->port), &agent->log);
            }
            event_source_free(agent->events);
            posix_port_free(agent->port);
            result = agent->failed ? EXIT_FAILURE : agent->unsent ? EXIT_UNSENT : EXIT_SUCCESS;
        }
    }
    if (terminate != NULL) {
        event_free(terminate);
    }
    if (interrupt != NULL) {
        event_free(interrupt);
    }
    return result;
}

int main(int argc, char **argv)
{
    base_process_start(EXIT_FAILURE);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-device")) {
        return EXIT_SUCCESS;
    }
    static struct agent agent;
    const struct argp argp = {
        .options = options,
        .parser = argument_parse,
        .doc = "Runs one device: checks in, brings and verifies tasks, runs them and reports."
               "\vExamples:\n"
               "  walle-device --gateway https://127.0.0.1:8443 --ca gateway/cert.pem \\\n"
               "      --enroll-token gateway/enroll.token --dir device --attr os=android \\\n"
               "      --root root.1\n"
               "  walle-device ... --trust release.key.pub --once    # one check-in\n"
               "  walle-device ... --events - < events.jsonl         # behaviour\n"
               "  walle-device --status device                       # what it has\n"
               "\nExit codes: 0 done; 1 it could not run; 2 usage; 3 --once ended with something "
               "unsent.",
    };
    argp_err_exit_status = EXIT_BAD_ARGS;
    agent.options.config.born_s = WALLE_BORN_S;
    agent.options.config.crash_limit = CRASH_LIMIT;
    agent.options.config.runs_max = agent_isolation_runs();
    agent.options.config.result_bytes_max = DEV_VM_RESULT_MAX;
    agent.options.config.cloud_calls_max = CLOUD_CALLS_MAX;
    if (!base_options_known(options, argc, argv) ||
        argp_parse(&argp, argc, argv, 0, NULL, &agent) != 0) {
        return EXIT_BAD_ARGS;
    }
    struct base_error error = {0};
    if (agent.status_dir != NULL) {
        enum base_status status = agent_status_print(agent.status_dir, agent.json, stdout, &error);
        if (status != BASE_OK) {
            (void)fprintf(stderr, "walle-device: %s\n", error.text);
        }
        return status == BASE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    agent_quiet_log(&agent.quiet, &agent.log, agent.verbose ? BASE_LOG_DEBUG : BASE_LOG_INFO);
    if (agent_descriptors_ready(&error) != BASE_OK) {
        base_log_error(&agent.log, "device", "%s", error.text);
        return EXIT_FAILURE;
    }
    agent.base = event_base_new();
    if (agent.base == NULL) {
        base_log_error(&agent.log, "device", "no event loop");
        return EXIT_FAILURE;
    }
    agent.options.log = agent.given.log = &agent.log;
    agent.options.blobs = agent_blobs_port(&agent.given);
    agent.faults.can_enrol = agent.enroll_token_path != NULL;
    agent.options.app = &agent;
    agent.options.on_result = on_result;
    agent.options.on_tick = on_tick;
    agent.options.runner_path = agent_isolation_runner(&agent.isolation);
    int result = agent_run(&agent);
    event_base_free(agent.base);
    return result;
}
