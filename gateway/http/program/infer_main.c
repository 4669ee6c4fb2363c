// walle-infer: the inference service as a program of its own, over the same server, core and
// service as the gateway's. Command line, settings, signals. Builds them and waits: SIGTERM or
// SIGINT finishes what is open and exits 0, a second one exits at once. What a gateway keeps for
// devices and rollouts is in its data folder too, and is not used.
#include "api/api.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os/process_start.h"
#include "base/prng.h"
#include "base/text/near_option.h"
#include "base/text/terminal.h"
#include "http/config/http_config.h"
#include "http/secret/own_tokens.h"
#include "http/server.h"
#include "infer/codec/oip_json.h"
#include "infer/release/model_release.h"
#include "infer/rest/infer_http.h"
#include "svc/core.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_USAGE     2
#define OVERRIDES_MAX  64
#define FORCED_STOP_MS 3000 // after the drain's end: the service's last answers
#define UPKEEP_MS      (600 * 1000)

struct arguments {
    const char *dir;
    const char *config_path;              // NULL: defaults only
    const char *overrides[OVERRIDES_MAX]; // KEY=VALUE
    uint32_t override_count;
    struct gw_http_config config; // of defaults, file and command line
    struct base_error error;
};

enum option_key {
    OPTION_DIR = 'd',
    OPTION_CONFIG = 'c',
    OPTION_SET = 's',
    OPTION_MODELS = 'm',
    OPTION_THREADS = 't',
    OPTION_LISTEN = 'l',
    OPTION_TLS = 0x100,
    OPTION_WORKERS,
    OPTION_ACCESS,
    OPTION_CONTROL,
    OPTION_LOG,
};

static const struct argp_option options[] = {
    {"models", OPTION_MODELS, "DIR", 0, "folder of models: DIR/MODEL/VERSION/model.onnx", 0},
    {"listen", OPTION_LISTEN, "ADDR:PORT", 0,
     "clear HTTP/1.1 and HTTP/2 on loopback (default 127.0.0.1:8000; port 0: a free one; none: "
     "off)",
     0},
    {"tls", OPTION_TLS, "ADDR:PORT", 0, "HTTP/1.1 and HTTP/2 over TLS (default none)", 0},
    {"threads", OPTION_THREADS, "N", 0, "that run models (default: one per core)", 0},
    {"access", OPTION_ACCESS, "WHO", 0,
     "who calls models without a token: loopback (default), open or token", 0},
    {"model-control", OPTION_CONTROL, "HOW", 0,
     "all: every model is loaded at start (default); explicit: those that are asked for", 0},
    {"dir", OPTION_DIR, "DIR", 0,
     "data directory with tokens and certificate, made when absent (default ./walle-infer-data)",
     0},
    {"config", OPTION_CONFIG, "FILE", 0, "settings; conf/gateway.conf shows them all", 0},
    {"workers", OPTION_WORKERS, "N", 0, "event loops (default: one per core)", 0},
    {"log", OPTION_LOG, "LEVEL", 0, "error, warn, info or debug", 0},
    {"set", OPTION_SET, "KEY=VALUE", 0, "any setting of the configuration file", 0},
    {0},
};

static const char doc[] =
    "Serves ONNX models by the Open Inference Protocol (v2), over HTTP/1.1 and HTTP/2."
    "\vWhen it is ready it prints one line for each listener:\n"
    "  listening tls ADDR:PORT\n  listening h2c ADDR:PORT\nThe second speaks HTTP/1.1 as well.\n\n"
    "Signals: TERM and INT finish what is open and exit, a second one exits at once.\n\n"
    "Try it: curl http://127.0.0.1:8000/v2/health/ready";

static void add_setting(struct arguments *arguments, struct argp_state *state, const char *name,
                        const char *value)
{
    char *setting = NULL;
    if (arguments->override_count == OVERRIDES_MAX ||
        asprintf(&setting, "%s=%s", name, value) < 0) {
        argp_error(state, "more than %d settings, or no memory", OVERRIDES_MAX);
        return;
    }
    arguments->overrides[arguments->override_count++] = setting; // as long as the process
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    static const struct {
        int key;
        const char *setting;
    } settings[] = {
        {OPTION_MODELS, "infer.models"}, {OPTION_LISTEN, "listen.h2c"},
        {OPTION_TLS, "listen.tls"},      {OPTION_THREADS, "infer.threads"},
        {OPTION_ACCESS, "infer.access"}, {OPTION_CONTROL, "infer.control"},
        {OPTION_WORKERS, "workers"},     {OPTION_LOG, "log.level"},
    };
    struct arguments *arguments = state->input;
    char *equals;
    switch (key) {
    case OPTION_DIR:
        arguments->dir = value;
        return 0;
    case OPTION_CONFIG:
        arguments->config_path = value;
        return 0;
    case OPTION_SET:
        equals = strchr(value, '=');
        if (equals == NULL) {
            argp_error(state, "--set '%s' is not KEY=VALUE", value);
            return EINVAL;
        }
        *equals = '\0';
        add_setting(arguments, state, value, equals + 1);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", value);
        return EINVAL;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (settings[i].key == key) {
            add_setting(arguments, state, settings[i].setting, value);
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

// ---- Settings

static enum base_status set(struct gw_http_config *config, const char *setting,
                            struct base_error *error)
{
    const char *equals = strchr(setting, '=');
    const struct base_str name = {setting, (size_t)(equals - setting)};
    return gw_http_config_set(config, name, base_str_of(equals + 1), error);
}

static enum base_status check(const struct gw_http_config *config, enum base_log_level *out_level,
                              struct base_error *error)
{
    enum gw_metrics_access access;
    if (config->infer_models[0] == '\0') {
        return base_error_set(error, BASE_ERR_INVALID, "--models DIR is needed");
    }
    BASE_TRY(gw_http_config_access("infer.access", config->infer_access, &access, error));
    BASE_TRY(gw_http_config_access("metrics.access", config->metrics_access, &access, error));
    BASE_TRY(gw_http_config_control(config, error));
    return base_log_level_parse(config->log_level, out_level) == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "log.level: '%.60s' is not error, warn, info or debug",
                                config->log_level);
}

// Defaults of this program, then the file, then the command line.
static enum base_status read_config(struct arguments *arguments, enum base_log_level *out_level)
{
    struct gw_http_config *config = &arguments->config;
    struct base_error *error = &arguments->error;
    gw_http_config_defaults(config);
    BASE_TRY(set(config, "listen.h2c=127.0.0.1:8000", error));
    BASE_TRY(set(config, "listen.tls=none", error));
    if (arguments->config_path != NULL) {
        BASE_TRY(gw_http_config_load(config, arguments->config_path, error));
    }
    for (uint32_t i = 0; i < arguments->override_count; i++) {
        BASE_TRY(set(config, arguments->overrides[i], error));
    }
    return check(config, out_level, error);
}

// ---- Running

struct program {
    struct base_log log;
    struct gw_own_tokens tokens;
    struct gw_core *core;
    struct gw_infer_service *service;
    struct gw_releases *releases;
    struct gw_server *server;
    int signals;
};

static uint64_t draw(void *ctx)
{
    (void)ctx;
    return base_entropy_u64();
}

static enum base_status open_core(struct program *program, const struct arguments *arguments,
                                  struct base_error *error)
{
    const struct gw_http_config *config = &arguments->config;
    enum gw_metrics_access access;
    BASE_TRY(gw_http_config_access("metrics.access", config->metrics_access, &access, error));
    const struct gw_core_options core_options = {
        .dir = arguments->dir,
        .map_bytes_max = config->map_bytes_max,
        .retry_after_s = (uint32_t)config->retry_after_s,
        .control_thread = true,
        .device_auth_required = true, // there are none
        .random = {.next = draw},
        .first_token = gw_own_tokens_port(&program->tokens),
        .admin_token = base_str_of(program->tokens.admin),
        .metrics_access = access,
        .clock = *base_clock_through_sleep(),
        .born_s = WALLE_BORN_S,
        .log = &program->log,
    };
    BASE_TRY(gw_core_new(&core_options, &program->core, error));
    gw_api_install(program->core);
    return BASE_OK;
}

static enum base_status open_all(struct program *program, const struct arguments *arguments,
                                 struct base_error *error)
{
    const struct gw_http_config *config = &arguments->config;
    enum gw_metrics_access access;
    const struct gw_infer_options infer_options = {
        .models_dir = config->infer_models,
        .threads = (uint32_t)config->infer_threads,
        .session_bytes_max = (size_t)config->infer_session_bytes,
        .idle_bytes_max = (size_t)config->infer_idle_bytes,
        .device_calls_per_min = config->infer_device_calls_per_min,
        .device_bytes_per_min = config->infer_device_bytes_per_min,
        .quota = {config->infer_tenant_calls, config->infer_tenant_bytes},
        .explicit_models = strcmp(config->infer_control, "explicit") == 0,
        .hash_key = base_hash_key_draw(&(struct base_random_port){.next = draw}),
        .log = &program->log,
        .read_call = gw_oip_json_read,
    };
    BASE_TRY(gw_http_config_access("infer.access", config->infer_access, &access, error));
    BASE_TRY(gw_server_check(arguments->dir, config, error));
    BASE_TRY(gw_server_ports_free(config, error));
    BASE_TRY(gw_infer_service_new(&infer_options, &program->service, error));
    if (mkdir(arguments->dir, 0700) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: %s", arguments->dir, strerror(errno));
    }
    BASE_TRY(gw_own_tokens_read(&program->tokens, arguments->dir, config->admin_token_file, error));
    BASE_TRY(open_core(program, arguments, error));
    gw_infer_install(program->core, program->service, access);
    BASE_TRY(gw_release_open(program->core, program->service, &program->releases, error));
    const struct gw_server_options server_options = {
        .dir = arguments->dir, .config = config, .core = program->core, .log = &program->log};
    return gw_server_new(&server_options, &program->server, error);
}

static void announce(struct program *program)
{
    const char *tls = gw_server_tls_address(program->server);
    const char *clear = gw_server_h2c_address(program->server);
    gw_own_tokens_announce(&program->tokens, (const char *const[GW_OWN_NOTES]){tls, clear}, false,
                           &program->log);
    if (tls[0] != '\0') {
        printf("listening tls %s\n", tls);
    }
    if (clear[0] != '\0') {
        printf("listening h2c %s\n", clear);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) { // whoever waits for the lines has gone: no end
        base_log_warn(&program->log, "infer", "standard output: cannot write");
        clearerr(stdout);
    }
}

// A signal came. True: it is the first that asks for the end.
static bool on_signal(struct program *program, uint64_t drain_ms, bool stopping)
{
    struct signalfd_siginfo info;
    if (read(program->signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return stopping;
    }
    if (stopping) {
        _exit(EXIT_SUCCESS);
    }
    base_log_info(&program->log, "infer", "draining");
    gw_infer_service_drain(program->service);
    gw_own_tokens_done(&program->tokens);
    gw_server_stop(program->server, drain_ms);
    return true;
}

static int serve(struct program *program, const struct gw_http_config *config)
{
    struct pollfd waits[2] = {{.fd = program->signals, .events = POLLIN},
                              {.fd = gw_server_stopped_fd(program->server), .events = POLLIN}};
    bool stopping = false;
    for (;;) {
        int timeout_ms = stopping ? (int)config->limits.drain_ms + FORCED_STOP_MS : UPKEEP_MS;
        int ready = poll(waits, 2, timeout_ms);
        if (ready == 0 && !stopping) {
            gw_server_upkeep(program->server);
        } else if (ready == 0) {
            base_log_error(&program->log, "infer", "not all work ended in time");
            _exit(EXIT_FAILURE); // workers that do not stop cannot be joined
        } else if ((waits[1].revents & POLLIN) != 0) {
            return EXIT_SUCCESS;
        } else if (ready > 0) {
            stopping = on_signal(program, config->limits.drain_ms, stopping);
        }
    }
}

static int catch_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    return pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0 ? signalfd(-1, &signals, SFD_CLOEXEC)
                                                           : -1;
}

static int run(struct arguments *arguments, enum base_log_level level)
{
    struct program program = {.signals = catch_signals()};
    int status = EXIT_FAILURE;
    if (program.signals < 0) {
        return EXIT_FAILURE;
    }
    base_log_stderr(&program.log, level);
    if (open_all(&program, arguments, &arguments->error) != BASE_OK) {
        fprintf(stderr, "%s\n", arguments->error.text);
    } else {
        announce(&program);
        status = serve(&program, &arguments->config);
    }
    gw_own_tokens_done(&program.tokens);
    gw_server_free(program.server);
    gw_release_close(program.releases);
    gw_infer_service_free(program.service);
    gw_core_free(program.core);
    close(program.signals);
    return status;
}

int main(int argc, char **argv)
{
    base_process_start(EXIT_FAILURE);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-infer")) {
        return EXIT_SUCCESS;
    }
    static const struct argp argp = {options, parse_option, NULL, doc, NULL, NULL, NULL};
    static struct arguments arguments = {.dir = "walle-infer-data"};
    enum base_log_level level;
    argp_err_exit_status = EXIT_USAGE;
    if (!base_options_known(options, argc, argv) ||
        argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_USAGE;
    }
    if (read_config(&arguments, &level) != BASE_OK) {
        if (arguments.error.line != 0) {
            fprintf(stderr, "%s:%u: ", arguments.config_path, arguments.error.line);
        }
        fprintf(stderr, "%s\n", arguments.error.text);
        return EXIT_USAGE;
    }
    return run(&arguments, level);
}
