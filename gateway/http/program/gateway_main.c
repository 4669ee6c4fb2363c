// walle-gateway: command line, configuration, signals. Builds the core and the server and waits:
// SIGHUP reloads certificates and settings, SIGTERM or SIGINT drains and exits 0, a second one
// exits at once.
#include "api/api.h"
#include "base/text/near_option.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"
#include "ddi/ddi.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "http/secret/evidence_keys.h"
#include "http/config/http_config.h"
#include "http/secret/online_keys.h"
#include "http/secret/own_tokens.h"
#include "http/secret/secret_file.h"
#include "http/server.h"
#include "infer/codec/oip_json.h"
#include "infer/release/model_release.h"
#include "infer/rest/infer_http.h"
#include "svc/core.h"
#include "tunnel/gw_tunnel.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define OVERRIDES_MAX   64
#define TOKEN_BYTES_MAX 512
#define FORCED_STOP_MS  3000 // after the drain's end: the core's last answers
#define EXIT_USAGE      2
#define PLACE_MAX       (PATH_MAX + 16)
#define UPKEEP_MS       (600 * 1000)
#define UPKEEPS_A_DAY   144u
#define DAY_S           86400

// A setting from the command line, applied over the file at start and at every reload.
struct override {
    const char *name;
    const char *value;
};

struct arguments {
    const char *dir;
    const char *config_path; // NULL: defaults only
    bool check;              // no more than the settings
    struct override overrides[OVERRIDES_MAX];
    uint32_t override_count;
};

enum option_key {
    OPTION_DIR = 'd',
    OPTION_CONFIG = 'c',
    OPTION_SET = 's',
    OPTION_TLS = 0x100,
    OPTION_H2C,
    OPTION_WORKERS,
    OPTION_UPSTREAM,
    OPTION_LOG,
    OPTION_CHECK,
};

static const struct argp_option options[] = {
    {"dir", OPTION_DIR, "DIR", 0, "data directory, made when absent (default ./walle-data)", 0},
    {"tls", OPTION_TLS, "ADDR:PORT", 0,
     "HTTP/2 over TLS (default 127.0.0.1:8443; port 0: a free one; none: off)", 0},
    {"h2c", OPTION_H2C, "ADDR:PORT", 0,
     "clear HTTP/2 on loopback (default 127.0.0.1:8080; port 0: a free one; none: off)", 0},
    {"config", OPTION_CONFIG, "FILE", 0, "settings; conf/gateway.conf shows them all", 0},
    {"workers", OPTION_WORKERS, "N", 0, "event loops (default: one per core)", 0},
    {"upstream", OPTION_UPSTREAM, "URL", 0, "http://HOST:PORT behind every other path", 0},
    {"log", OPTION_LOG, "LEVEL", 0, "error, warn, info or debug", 0},
    {"check-config", OPTION_CHECK, NULL, 0,
     "say whether a start would take these settings and the files they name, and start nothing", 0},
    {"set", OPTION_SET, "KEY=VALUE", 0, "any setting of the configuration file", 0},
    {0},
};

static const char doc[] =
    "Cloud side of Walle: answers device check-ins, serves task files, keeps hint streams, runs "
    "rollouts, and forwards every other path to an upstream."
    "\vWhen it is ready it prints one line for each listener:\n"
    "  listening tls ADDR:PORT\n  listening h2c ADDR:PORT\n\n"
    "Signals: HUP reloads certificates and settings; TERM and INT finish what is open and exit, a "
    "second one exits at once.\n\nTry it: curl --http2-prior-knowledge "
    "http://127.0.0.1:8080/healthz";

static void add_override(struct arguments *arguments, struct argp_state *state, const char *name,
                         const char *value)
{
    if (arguments->override_count == OVERRIDES_MAX) {
        argp_error(state, "more than %d settings", OVERRIDES_MAX);
        return;
    }
    arguments->overrides[arguments->override_count++] = (struct override){name, value};
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_DIR:
        arguments->dir = value;
        return 0;
    case OPTION_CONFIG:
        arguments->config_path = value;
        return 0;
    case OPTION_CHECK:
        arguments->check = true;
        return 0;
    case OPTION_TLS:
        add_override(arguments, state, "listen.tls", value);
        return 0;
    case OPTION_H2C:
        add_override(arguments, state, "listen.h2c", value);
        return 0;
    case OPTION_WORKERS:
        add_override(arguments, state, "workers", value);
        return 0;
    case OPTION_UPSTREAM:
        add_override(arguments, state, "proxy.upstream", value);
        return 0;
    case OPTION_LOG:
        add_override(arguments, state, "log.level", value);
        return 0;
    case OPTION_SET: {
        char *equals = strchr(value, '=');
        if (equals == NULL) {
            argp_error(state, "--set '%s' is not KEY=VALUE", value);
            return EINVAL;
        }
        *equals = '\0';
        add_override(arguments, state, value, equals + 1);
        return 0;
    }
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", value);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// ---- Settings

static bool is_override(const struct arguments *arguments, struct base_str name)
{
    for (uint32_t i = 0; i < arguments->override_count; i++) {
        if (base_str_equal(base_str_of(arguments->overrides[i].name), name)) {
            return true;
        }
    }
    return false;
}

// Where the setting is set whose name an error begins with: "FILE:LINE: ", "command line: ", or
// nothing. Not put into the error, which has no room for a long name.
static const char *place(const struct arguments *arguments, const struct gw_http_config *config,
                         const struct base_error *error, char out[PLACE_MAX])
{
    const struct base_str name = {error->text, strcspn(error->text, ":")};
    uint32_t line = gw_http_config_line(config, name);
    out[0] = '\0';
    if (line != 0) {
        (void)snprintf(out, PLACE_MAX, "%s:%u: ", arguments->config_path, line);
    } else if (is_override(arguments, name)) {
        (void)snprintf(out, PLACE_MAX, "command line: ");
    }
    return out;
}

// Says what is wrong on standard error. False.
static bool complain(const struct arguments *arguments, const struct gw_http_config *config,
                     const struct base_error *error)
{
    char where[PLACE_MAX];
    fprintf(stderr, "%s%s\n", place(arguments, config, error, where), error->text);
    return false;
}

static enum base_status check_words(const struct gw_http_config *config,
                                    enum base_log_level *out_level, struct base_error *error)
{
    enum gw_metrics_access access;
    if (strcmp(config->device_auth, "optional") != 0 &&
        strcmp(config->device_auth, "required") != 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "device.auth: '%.60s' is not optional or required",
                              config->device_auth);
    }
    if (strcmp(config->task_leaves, "optional") != 0 &&
        strcmp(config->task_leaves, "required") != 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "task.leaves: '%.60s' is not optional or required",
                              config->task_leaves);
    }
    if (strcmp(config->tunnel_unknown_uploads, "accept") != 0 &&
        strcmp(config->tunnel_unknown_uploads, "refuse") != 0) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "tunnel.unknown_uploads: '%.60s' is not accept or refuse",
                              config->tunnel_unknown_uploads);
    }
    BASE_TRY(gw_http_config_access("metrics.access", config->metrics_access, &access, error));
    BASE_TRY(gw_http_config_access("infer.access", config->infer_access, &access, error));
    BASE_TRY(gw_http_config_control(config, error));
    return base_log_level_parse(config->log_level, out_level) == BASE_OK
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "log.level: '%.60s' is not error, warn, info or debug",
                                config->log_level);
}

// File, then command line. Says what is wrong on standard error.
static bool read_config(const struct arguments *arguments, struct gw_http_config *out,
                        enum base_log_level *out_level)
{
    struct base_error error = {0};
    struct gw_http_config config;
    gw_http_config_defaults(&config);
    if (arguments->config_path != NULL &&
        gw_http_config_load(&config, arguments->config_path, &error) != BASE_OK) {
        if (error.line != 0) {
            fprintf(stderr, "%s:%u: %s\n", arguments->config_path, error.line, error.text);
        } else {
            fprintf(stderr, "%s\n", error.text);
        }
        return false;
    }
    for (uint32_t i = 0; i < arguments->override_count; i++) {
        const struct override *override = &arguments->overrides[i];
        if (gw_http_config_set(&config, base_str_of(override->name), base_str_of(override->value),
                               &error) != BASE_OK) {
            fprintf(stderr, "command line: %s\n", error.text);
            return false;
        }
    }
    if (check_words(&config, out_level, &error) != BASE_OK) {
        return complain(arguments, &config, &error);
    }
    *out = config;
    return true;
}

// First line of the token file, without its end.
static enum base_status read_token(const char *setting, const char *path, char *out,
                                   struct base_error *error)
{
    out[0] = '\0';
    if (path[0] == '\0') {
        return BASE_OK;
    }
    struct base_error why = {0};
    enum base_status status = gw_secret_line_read(path, false, out, TOKEN_BYTES_MAX, &why);
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", setting, why.text);
}

static enum base_status read_own(const struct arguments *arguments,
                                 const struct gw_http_config *config, struct gw_own_tokens *out,
                                 struct base_error *error)
{
    struct base_error why = {0};
    const char *file = config->admin_token_file;
    enum base_status status = gw_own_tokens_read(out, arguments->dir, file, &why);
    return status == BASE_OK
               ? BASE_OK
               : base_error_set(error, status, "%s%s", file[0] != '\0' ? "admin.token_file: " : "",
                                why.text);
}

static uint64_t draw(void *ctx)
{
    (void)ctx;
    return base_entropy_u64();
}

// What a run of the program has open.
struct gateway {
    const struct arguments *arguments;
    const struct gw_http_config *config;
    struct base_log *log;
    struct gw_own_tokens tokens;
    char ddi_token[TOKEN_BYTES_MAX];
    struct gw_online_keys *keys;
    struct gw_core *core;
    struct gw_tunnel *tunnel;
    struct gw_infer_service *infer; // NULL: no models are served
    struct gw_releases *releases;   // of models; the same
    struct gw_server *server;
    int signals;
};

static enum base_status open_core(struct gateway *gateway, struct base_error *error)
{
    const struct gw_http_config *config = gateway->config;
    enum gw_metrics_access access = GW_METRICS_LOOPBACK;
    struct gw_evidence_keys evidence;
    BASE_TRY(gw_http_config_access("metrics.access", config->metrics_access, &access, error));
    BASE_TRY(gw_evidence_keys_parse(base_str_of(config->evidence_keys), &evidence, error));
    const struct gw_core_options core_options = {
        .dir = gateway->arguments->dir,
        .map_bytes_max = config->map_bytes_max,
        .commit_delay_us = (uint32_t)config->commit_delay_us,
        .tick_ms = (uint32_t)config->tick_ms,
        .checkin_interval_s = (uint32_t)config->checkin_interval_s,
        .hint_spread_ms = (uint32_t)config->hint_spread_ms,
        .hint_rate_per_s = (uint32_t)config->hint_rate_per_s,
        .retry_after_s = (uint32_t)config->retry_after_s,
        .control_thread = true,
        .device_auth_required = strcmp(config->device_auth, "required") == 0,
        .leaves_required = strcmp(config->task_leaves, "required") == 0,
        .enroll_rate_per_s = (uint32_t)config->enroll_rate_per_s,
        .unproven_records = (uint32_t)config->unproven_records,
        .unproven_per_address = (uint32_t)config->unproven_per_address,
        .unproven_expire_s = (uint32_t)config->unproven_expire_s,
        .random = {.next = draw},
        .first_token = gw_own_tokens_port(&gateway->tokens),
        .signer = gw_online_keys_port(gateway->keys),
        .evidence_keys = evidence.keys,
        .evidence_key_count = evidence.count,
        .timestamp_life_s = (uint32_t)config->timestamp_life_s,
        .lease_s = (uint32_t)config->lease_s,
        .admin_token = base_str_of(gateway->tokens.admin),
        .ddi_token = base_str_of(gateway->ddi_token),
        .metrics_access = access,
        .clock = *base_clock_through_sleep(),
        .born_s = WALLE_BORN_S,
        .log = gateway->log,
    };
    BASE_TRY(gw_core_new(&core_options, &gateway->core, error));
    gw_api_install(gateway->core);
    if (gateway->ddi_token[0] != '\0') {
        gw_ddi_install(gateway->core);
    }
    return BASE_OK;
}

static enum base_status load_dict(void *ctx, uint32_t id, uint8_t **out_bytes, size_t *out_size)
{
    return gw_core_load_dict(ctx, id, out_bytes, out_size);
}

static void tell_disk(void *ctx, enum gw_disk_level level)
{
    gw_core_set_disk(ctx, level);
}

static enum base_status open_tunnel(struct gateway *gateway, struct base_error *error)
{
    const struct gw_http_config *config = gateway->config;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/tunnel", gateway->arguments->dir);
    const struct gw_tunnel_options tunnel_options = {
        .dir = path,
        .commit_delay_us = (uint32_t)config->tunnel_commit_delay_us,
        .segment_bytes = config->tunnel_segment_bytes,
        .retain_bytes = config->tunnel_retain_bytes,
        .unproven_percent = (uint32_t)config->tunnel_unproven_percent,
        .unproven_marks = config->unproven_records,
        .unproven_expire_s = (uint32_t)config->unproven_expire_s,
        .keep_free_bytes = config->disk_keep_free_bytes,
        .disk_ctx = gateway->core,
        .disk_changed = tell_disk,
        .credit_bytes = (uint32_t)config->tunnel_credit_bytes,
        .memory_bytes = config->tunnel_memory_bytes,
        .thin_percent = (uint32_t)config->tunnel_thin_percent,
        .device_batches_per_s = (uint32_t)config->tunnel_device_batches_per_s,
        .refuse_unknown = strcmp(config->tunnel_unknown_uploads, "refuse") == 0,
        .hash_key = base_hash_key_draw(&(struct base_random_port){.next = draw}),
        .dicts = {.ctx = gateway->core, .load = load_dict},
        .clock = *base_clock_real(),
        .log = gateway->log,
    };
    BASE_TRY(gw_tunnel_new(&tunnel_options, &gateway->tunnel, error));
    const struct gw_tunnel_seam seam = {
        .self = gateway->tunnel, .declare = gw_tunnel_declare, .figures = gw_tunnel_figures};
    gw_core_set_tunnel(gateway->core, &seam);
    return BASE_OK;
}

static enum base_status open_infer(struct gateway *gateway, struct base_error *error)
{
    const struct gw_http_config *config = gateway->config;
    enum gw_metrics_access access = GW_METRICS_LOOPBACK;
    struct base_error why = {0};
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
        .log = gateway->log,
        .read_call = gw_oip_json_read,
    };
    if (config->infer_models[0] == '\0') {
        return BASE_OK;
    }
    enum base_status status = gw_infer_service_new(&infer_options, &gateway->infer, &why);
    if (status != BASE_OK) {
        return base_error_set(error, status, "infer.models: %s", why.text);
    }
    BASE_TRY(gw_http_config_access("infer.access", config->infer_access, &access, error));
    gw_infer_install(gateway->core, gateway->infer, access);
    return gw_release_open(gateway->core, gateway->infer, &gateway->releases, error);
}

// ---- Running

static void reload(const struct arguments *arguments, struct gw_server *server,
                   struct base_log *log)
{
    struct gw_http_config config;
    struct base_error error = {0};
    enum base_log_level level;
    if (!read_config(arguments, &config, &level)) {
        base_log_error(log, "gateway", "reload refused: settings stay as they were");
    } else if (gw_server_reload(server, &config, &error) != BASE_OK) {
        char where[PLACE_MAX];
        base_log_error(log, "gateway", "reload refused: %s%s",
                       place(arguments, &config, &error, where), error.text);
    } else {
        base_log_info(log, "gateway", "reloaded");
    }
}

// A root that runs out stops every release: said while there is time to make the next one.
static void warn_root(const struct gw_core *core, const struct base_log *log)
{
    uint64_t expires_s = gw_core_root_expires_s(core);
    uint64_t now_s = base_clock_wall_us() / 1000000;
    if (expires_s == 0 || expires_s >= now_s + GW_ROOT_WARN_S) {
        return;
    }
    uint64_t left_s = expires_s > now_s ? expires_s - now_s : 0;
    base_log_warn(log, "trust",
                  "the root runs out in %llu days: make its successor (walle root rotate)",
                  (unsigned long long)(left_s / DAY_S));
}

// Returns the exit status.
static int serve(struct gateway *gateway)
{
    struct gw_server *server = gateway->server;
    const struct gw_http_config *config = gateway->config;
    const struct base_log *log = gateway->log;
    struct pollfd waits[2] = {{.fd = gateway->signals, .events = POLLIN},
                              {.fd = gw_server_stopped_fd(server), .events = POLLIN}};
    bool stopping = false;
    uint32_t upkeeps = 0;
    for (;;) {
        int timeout_ms = stopping ? (int)config->limits.drain_ms + FORCED_STOP_MS : UPKEEP_MS;
        int ready = poll(waits, 2, timeout_ms);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready == 0 && !stopping) {
            gw_server_upkeep(server);
            if (++upkeeps % UPKEEPS_A_DAY == 0) {
                warn_root(gateway->core, log);
            }
            continue;
        }
        if (ready == 0) {
            base_log_error(log, "gateway", "not all work ended in time");
            return EXIT_FAILURE;
        }
        if ((waits[1].revents & POLLIN) != 0) {
            return EXIT_SUCCESS;
        }
        struct signalfd_siginfo info;
        if (read(gateway->signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
            continue;
        }
        if (info.ssi_signo == SIGHUP) {
            reload(gateway->arguments, server, gateway->log);
        } else if (!stopping) {
            stopping = true;
            base_log_info(log, "gateway", "draining");
            gw_own_tokens_done(&gateway->tokens); // before another may listen here
            gw_server_stop(server, config->limits.drain_ms);
        } else {
            _exit(EXIT_SUCCESS); // everything acknowledged is on disk already
        }
    }
}

static int catch_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void announce(const struct gw_server *server, struct gw_own_tokens *tokens,
                     const struct base_log *log)
{
    const char *tls = gw_server_tls_address(server);
    const char *h2c = gw_server_h2c_address(server);
    gw_own_tokens_announce(tokens, (const char *const[GW_OWN_NOTES]){tls, h2c}, true, log);
    if (tls[0] != '\0') {
        printf("listening tls %s\n", tls);
    }
    if (h2c[0] != '\0') {
        printf("listening h2c %s\n", h2c);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) { // whoever waits for the lines has gone: no end
        base_log_warn(log, "gateway", "standard output: cannot write");
        clearerr(stdout);
    }
}

// ---- Before the start

// A data folder that is there, with what a start reads in it; or room for one.
static enum base_status check_dir(const struct arguments *arguments,
                                  const struct gw_http_config *config, struct base_error *error)
{
    struct gw_own_tokens tokens;
    char above[PATH_MAX];
    struct stat about;
    if (stat(arguments->dir, &about) == 0) {
        if (!S_ISDIR(about.st_mode)) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: %s", arguments->dir,
                                  strerror(ENOTDIR));
        }
        enum base_status read = read_own(arguments, config, &tokens, error);
        explicit_bzero(&tokens, sizeof(tokens));
        return read == BASE_OK ? gw_online_keys_check(arguments->dir, error) : read;
    }
    int size = snprintf(above, sizeof(above), "%s", arguments->dir);
    if (size < 0 || (size_t)size >= sizeof(above) || access(dirname(above), W_OK | X_OK) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%s: cannot be made: %s", arguments->dir,
                              strerror(errno));
    }
    char token[TOKEN_BYTES_MAX];
    enum base_status read = read_token("admin.token_file", config->admin_token_file, token, error);
    explicit_bzero(token, sizeof(token));
    return read;
}

// What a start would refuse is refused here. Nothing is made, written or bound.
static enum base_status look(const struct arguments *arguments, const struct gw_http_config *config,
                             struct base_error *error)
{
    char token[TOKEN_BYTES_MAX];
    struct gw_evidence_keys evidence;
    BASE_TRY(check_dir(arguments, config, error));
    enum base_status read = read_token("ddi.token_file", config->ddi_token_file, token, error);
    explicit_bzero(token, sizeof(token));
    BASE_TRY(read);
    BASE_TRY(gw_evidence_keys_parse(base_str_of(config->evidence_keys), &evidence, error));
    return gw_server_check(arguments->dir, config, error);
}

// A new one is made only for a gateway that could start: else the refused start would leave it.
static enum base_status make_dir(const struct arguments *arguments,
                                 const struct gw_http_config *config, struct base_error *error)
{
    const char *dir = arguments->dir;
    if (access(dir, F_OK) != 0) {
        BASE_TRY(look(arguments, config, error));
        BASE_TRY(gw_server_ports_free(config, error));
    }
    return mkdir(dir, 0700) == 0 || errno == EEXIST
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "%s: %s", dir, strerror(errno));
}

// The folder and the secrets of operators.
static enum base_status open_dir(struct gateway *gateway, struct base_error *error)
{
    const struct gw_http_config *config = gateway->config;
    BASE_TRY(make_dir(gateway->arguments, config, error));
    BASE_TRY(read_own(gateway->arguments, config, &gateway->tokens, error));
    return read_token("ddi.token_file", config->ddi_token_file, gateway->ddi_token, error);
}

static int run(const struct arguments *arguments, const struct gw_http_config *config,
               struct base_log *log)
{
    struct gateway gateway = {
        .arguments = arguments, .config = config, .log = log, .signals = catch_signals()};
    struct base_error error = {0};
    if (gateway.signals < 0) {
        return EXIT_FAILURE;
    }
    if (open_dir(&gateway, &error) != BASE_OK) {
        (void)complain(arguments, config, &error);
        return EXIT_FAILURE;
    }
    int status = EXIT_FAILURE;
    if (gw_online_keys_open(arguments->dir, &gateway.keys, &error) != BASE_OK ||
        open_core(&gateway, &error) != BASE_OK || open_tunnel(&gateway, &error) != BASE_OK) {
        fprintf(stderr, "%s: %s\n", arguments->dir, error.text);
    } else if (open_infer(&gateway, &error) != BASE_OK) {
        (void)complain(arguments, config, &error);
    } else {
        const struct gw_server_options server_options = {.dir = arguments->dir,
                                                         .config = config,
                                                         .core = gateway.core,
                                                         .tunnel = gateway.tunnel,
                                                         .log = log};
        if (gw_server_new(&server_options, &gateway.server, &error) != BASE_OK) {
            (void)complain(arguments, config, &error);
        } else {
            announce(gateway.server, &gateway.tokens, log);
            warn_root(gateway.core, log);
            status = serve(&gateway);
        }
    }
    if (status == EXIT_FAILURE && gateway.server != NULL) {
        _exit(status); // workers that do not stop cannot be joined
    }
    gw_own_tokens_done(&gateway.tokens);
    gw_server_free(gateway.server);
    gw_release_close(gateway.releases);
    gw_infer_service_free(gateway.infer);
    gw_tunnel_free(gateway.tunnel);
    gw_core_free(gateway.core);
    gw_online_keys_free(gateway.keys);
    close(gateway.signals);
    return status;
}

static int check_config(const struct arguments *arguments, const struct gw_http_config *config)
{
    struct base_error error = {0};
    if (look(arguments, config, &error) != BASE_OK) {
        (void)complain(arguments, config, &error);
        return EXIT_USAGE;
    }
    puts("the settings are good");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    base_process_start(EXIT_FAILURE);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-gateway")) {
        return EXIT_SUCCESS;
    }
    static const struct argp argp = {options, parse_option, NULL, doc, NULL, NULL, NULL};
    struct arguments arguments = {.dir = "walle-data"};
    argp_err_exit_status = EXIT_USAGE;
    if (!base_options_known(options, argc, argv) ||
        argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_USAGE;
    }
    struct gw_http_config config;
    enum base_log_level level;
    if (!read_config(&arguments, &config, &level)) {
        return EXIT_USAGE;
    }
    if (arguments.check) {
        return check_config(&arguments, &config);
    }
    struct base_log log;
    base_log_stderr(&log, level);
    return run(&arguments, &config, &log);
}
