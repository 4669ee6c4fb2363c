// Puts workers, listeners and TLS together; called by the main thread. Shared with the workers'
// threads: the count of those that have stopped (atomic) and an eventfd. gateway_main.c calls. A
// reload builds the new settings and contexts first and then posts them to every worker, so a fault
// in a file changes nothing. Workers are stopped by message and joined; nothing of theirs is
// touched before.
#include "http/server.h"

#include "base/os/regular_file.h"
#include "base/check.h"
#include "base/clock.h"
#include "http/config/http_trust.h"
#include "http/memory/body_budget.h"
#include "http/guard/early_guard.h"
#include "http/guard/host_list.h"
#include "http/listener.h"
#include "http/memory/overload.h"
#include "http/guard/peer_table.h"
#include "http/tls/tls_context.h"
#include "http/parse/upstream_address.h"
#include "http/worker.h"
#include "http/worker_life.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_RESERVED 256u // descriptors that are not connections

struct gw_server {
    struct gw_http_config config;
    char dir[PATH_MAX];
    struct gw_core *core;
    struct gw_tunnel *tunnel;
    const struct base_log *log;
    SSL_CTX *tls;
    struct gw_early_guard *early_guard;
    struct gw_peer_table *peers;
    struct gw_peer_rates *rates;
    struct gw_overload *overload;
    struct gw_body_budget *budget;
    struct gw_host_list *hosts;
    char spool_dir[PATH_MAX + 8];
    uint64_t connections_max; // what the table was made for
    struct gw_http_worker *workers[GW_WORKERS_MAX];
    uint32_t worker_count;
    uint32_t started_count;
    atomic_uint stopped_count;
    int stopped_fd;
    char tls_address[GW_ADDRESS_TEXT_MAX];
    char h2c_address[GW_ADDRESS_TEXT_MAX];
};

const char *gw_server_tls_address(const struct gw_server *server)
{
    return server->tls_address;
}

const char *gw_server_h2c_address(const struct gw_server *server)
{
    return server->h2c_address;
}

int gw_server_stopped_fd(const struct gw_server *server)
{
    return server->stopped_fd;
}

static bool listens(const char *address)
{
    return address[0] != '\0' && strcmp(address, "none") != 0;
}

// ---- TLS

// Paths in the data folder, where the files are unless settings name others.
struct tls_paths {
    char certificate[PATH_MAX + 16];
    char key[PATH_MAX + 16];
    char ticket_key[PATH_MAX + 16];
};

static struct gw_tls_files tls_files(const char *dir, const struct gw_http_config *config,
                                     struct gw_early_guard *guard, struct tls_paths *paths)
{
    (void)snprintf(paths->certificate, sizeof(paths->certificate), "%s/cert.pem", dir);
    (void)snprintf(paths->key, sizeof(paths->key), "%s/key.pem", dir);
    (void)snprintf(paths->ticket_key, sizeof(paths->ticket_key), "%s/ticket.key", dir);
    bool own = config->certificate[0] != '\0';
    return (struct gw_tls_files){
        .certificate = own ? config->certificate : paths->certificate,
        .key = own ? config->key : paths->key,
        .ticket_key = paths->ticket_key,
        .client_ca = config->client_ca,
        .make_certificate = !own,
        .ticket_period_s = config->tls_ticket_key_s,
        .now_s = base_clock_wall_us() / 1000000,
        .early_bytes = (uint32_t)config->tls_early_data_bytes,
        .guard = guard,
    };
}

static enum base_status check_pair(const struct gw_http_config *config, struct base_error *error)
{
    return (config->certificate[0] != '\0') == (config->key[0] != '\0')
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "%s: tls.certificate and tls.key must be set together",
                                config->key[0] == '\0' ? "tls.certificate" : "tls.key");
}

// Which setting names the file that an error begins with.
static enum base_status name_setting(const struct gw_http_config *config, enum base_status status,
                                     struct base_error *error)
{
    const struct {
        const char *name;
        const char *path;
    } settings[] = {{"tls.certificate", config->certificate},
                    {"tls.key", config->key},
                    {"tls.client_ca", config->client_ca}};
    for (size_t i = 0; status != BASE_OK && i < sizeof(settings) / sizeof(settings[0]); i++) {
        size_t size = strlen(settings[i].path);
        if (size > 0 && strncmp(error->text, settings[i].path, size) == 0 &&
            (error->text[size] == ':' || error->text[size] == '\0')) {
            const struct base_error why = *error;
            return base_error_set(error, status, "%s: %s", settings[i].name, why.text);
        }
    }
    return status;
}

static enum base_status load_tls(const struct gw_server *server,
                                 const struct gw_http_config *config, SSL_CTX **out_tls,
                                 struct base_error *error)
{
    BASE_TRY(check_pair(config, error));
    struct tls_paths paths;
    const struct gw_tls_files files = tls_files(server->dir, config, server->early_guard, &paths);
    return name_setting(config, gw_tls_context_new(&files, server->log, out_tls, error), error);
}

// Tickets of a process before this one may be played back for a while; without its key there are
// none.
static enum base_status make_early_guard(struct gw_server *server)
{
    char ticket_key[PATH_MAX + 16];
    (void)snprintf(ticket_key, sizeof(ticket_key), "%s/ticket.key", server->dir);
    uint64_t now_ms = base_clock_mono_us() / 1000;
    bool fresh = access(ticket_key, F_OK) != 0;
    return gw_early_guard_new(now_ms, fresh ? now_ms : now_ms + GW_EARLY_WINDOW_MS,
                              &server->early_guard);
}

// ---- Names

static bool add_name(void *ctx, struct base_str name)
{
    return base_str_equal(name, BASE_STR("*")) || // no name, like others that are left out
           gw_host_list_add(ctx, name) != BASE_ERR_LIMIT;
}

// What the setting says and the certificate names.
static enum base_status make_hosts(const struct gw_http_config *config, const SSL_CTX *tls,
                                   struct gw_host_list **out_hosts, struct base_error *error)
{
    BASE_TRY(gw_host_list_new(config->hosts, out_hosts, error));
    if (tls != NULL && !gw_tls_context_names(tls, add_name, *out_hosts)) {
        gw_host_list_unref(*out_hosts);
        return base_error_set(error, BASE_ERR_LIMIT,
                              "listen.hosts and the certificate: more than %u names", GW_HOSTS_MAX);
    }
    return BASE_OK;
}

// ---- Start

static void on_stopped(void *ctx, struct gw_http_worker *worker)
{
    (void)worker;
    struct gw_server *server = ctx;
    if (atomic_fetch_add(&server->stopped_count, 1) + 1 == server->started_count) {
        uint64_t one = 1;
        ssize_t written = write(server->stopped_fd, &one, sizeof(one));
        (void)written; // an eventfd takes a 1
    }
}

static enum base_status check_free(const char *setting, const char *address,
                                   struct base_error *error)
{
    struct base_error why = {0};
    enum base_status status = listens(address) ? gw_listener_free_to_bind(address, &why) : BASE_OK;
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", setting, why.text);
}

enum base_status gw_server_ports_free(const struct gw_http_config *config, struct base_error *error)
{
    BASE_TRY(check_free("listen.tls", config->listen_tls, error));
    return check_free("listen.h2c", config->listen_h2c, error);
}

// One socket per worker on the same address; the first bind chooses the port.
static enum base_status listen_all(struct gw_server *server, const char *address, bool tls,
                                   char *out_text, struct base_error *error)
{
    if (!listens(address)) {
        return BASE_OK;
    }
    BASE_TRY(check_free(tls ? "listen.tls" : "listen.h2c", address, error));
    const char *where = address;
    for (uint32_t i = 0; i < server->worker_count; i++) {
        int fd;
        char text[GW_ADDRESS_TEXT_MAX];
        BASE_TRY(gw_listener_bind(where, !tls, &fd, text, error));
        memcpy(out_text, text, sizeof(text));
        where = out_text;
        enum base_status status = gw_http_worker_listen(server->workers[i], fd, tls);
        if (status != BASE_OK) {
            return base_error_set(error, status, "%.60s: %s", where, base_status_text(status));
        }
    }
    return BASE_OK;
}

static enum base_status make_workers(struct gw_server *server, struct base_error *error)
{
    for (uint32_t i = 0; i < server->worker_count; i++) {
        const struct gw_http_worker_options options = {
            .index = i,
            .core = server->core,
            .tunnel = server->tunnel,
            .peers = server->peers,
            .rates = server->rates,
            .overload = server->overload,
            .worker_count = server->worker_count,
            .config = &server->config,
            .tls = server->tls,
            .hosts = server->hosts,
            .budget = server->budget,
            .spool_dir = server->spool_dir,
            .log = server->log,
            .stopped = on_stopped,
            .stopped_ctx = server,
        };
        BASE_TRY(gw_http_worker_new(&options, &server->workers[i], error));
    }
    BASE_TRY(listen_all(server, server->config.listen_tls, true, server->tls_address, error));
    BASE_TRY(listen_all(server, server->config.listen_h2c, false, server->h2c_address, error));
    server->started_count = server->worker_count;
    for (uint32_t i = 0; i < server->worker_count; i++) {
        if (gw_http_worker_start(server->workers[i]) != BASE_OK) {
            server->started_count = i;
            return base_error_set(error, BASE_ERR_NOMEM, "cannot start worker %u", i);
        }
    }
    return BASE_OK;
}

// Connections cannot be more than there are descriptors, nor, on a reload, than the table made at
// start has room for: the limit follows, and says so.
static void fit_connections(struct gw_server *server)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return;
    }
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    uint64_t room =
        files.rlim_cur > 2 * FILES_RESERVED ? files.rlim_cur - FILES_RESERVED : files.rlim_cur / 2;
    if (server->connections_max != 0 && room > server->connections_max) {
        room = server->connections_max;
    }
    if (server->config.limits.connections > room) {
        base_log_info(server->log, "server",
                      "at most %llu connections, not the %llu of limits.connections: this process "
                      "may open %llu files",
                      (unsigned long long)room,
                      (unsigned long long)server->config.limits.connections,
                      (unsigned long long)files.rlim_cur);
        server->config.limits.connections = room;
    }
    if (server->connections_max == 0) {
        server->connections_max = server->config.limits.connections;
    }
}

static void limit_memory(struct gw_server *server)
{
    gw_overload_limit(server->overload, server->config.overload_memory_bytes,
                      server->config.overload_socket_bytes);
}

static uint32_t worker_count(const struct gw_http_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t count = config->workers != 0 ? config->workers : (cores > 0 ? (uint64_t)cores : 1);
    return count < GW_WORKERS_MAX ? (uint32_t)count : GW_WORKERS_MAX;
}

// The store makes it, and empties it at start; a core without a store does not.
static enum base_status make_spool_dir(struct gw_server *server, struct base_error *error)
{
    (void)snprintf(server->spool_dir, sizeof(server->spool_dir), "%s/tmp", server->dir);
    if (mkdir(server->spool_dir, 0700) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: %s", server->spool_dir, strerror(errno));
    }
    return BASE_OK;
}

static enum base_status check_listens(const struct gw_http_config *config, struct base_error *error)
{
    bool tls = listens(config->listen_tls);
    bool h2c = listens(config->listen_h2c);
    if (!tls && !h2c) {
        return base_error_set(error, BASE_ERR_INVALID, "both listen.tls and listen.h2c are off");
    }
    return tls && h2c && gw_listener_same(config->listen_tls, config->listen_h2c)
               ? base_error_set(error, BASE_ERR_INVALID,
                                "listen.h2c: %.60s is the port of listen.tls too",
                                config->listen_h2c)
               : BASE_OK;
}

// An address that is listened on.
static enum base_status check_address(const char *setting, const char *address, bool loopback_only,
                                      struct base_error *error)
{
    struct base_error why = {0};
    enum base_status status =
        listens(address) ? gw_listener_check(address, loopback_only, &why) : BASE_OK;
    return status == BASE_OK ? BASE_OK : base_error_set(error, status, "%s: %s", setting, why.text);
}

static enum base_status check_tls(const char *dir, const struct gw_http_config *config,
                                  struct base_error *error)
{
    struct tls_paths paths;
    BASE_TRY(check_pair(config, error));
    if (!listens(config->listen_tls)) {
        return BASE_OK; // no start reads them
    }
    const struct gw_tls_files files = tls_files(dir, config, NULL, &paths);
    return name_setting(config, gw_tls_files_check(&files, error), error);
}

enum base_status gw_server_check(const char *dir, const struct gw_http_config *config,
                                 struct base_error *error)
{
    struct gw_host_list *hosts = NULL;
    struct gw_upstream_address upstream;
    struct gw_trust trust;
    BASE_TRY(check_listens(config, error));
    BASE_TRY(check_address("listen.tls", config->listen_tls, false, error));
    BASE_TRY(check_address("listen.h2c", config->listen_h2c, true, error));
    BASE_TRY(gw_trust_read(config, &trust, error));
    BASE_TRY(check_tls(dir, config, error));
    BASE_TRY(gw_host_list_new(config->hosts, &hosts, error));
    gw_host_list_unref(hosts);
    return config->upstream[0] == '\0' ? BASE_OK
                                       : gw_upstream_resolve(config->upstream, &upstream, error);
}

static enum base_status set_up(struct gw_server *server, struct base_error *error)
{
    server->stopped_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->stopped_fd < 0) {
        return base_error_set(error, BASE_ERR_IO, "no descriptor for the server");
    }
    fit_connections(server);
    enum base_status status =
        gw_peer_table_new((uint32_t)server->config.limits.connections, &server->peers);
    if (status == BASE_OK) {
        status = gw_peer_rates_new(GW_PEER_RATES_PLACES, &server->rates);
    }
    if (status == BASE_OK) {
        status = gw_overload_new(server->log, &server->overload);
    }
    if (status != BASE_OK) {
        return base_error_set(error, status, "no memory for the table of peers");
    }
    limit_memory(server);
    BASE_TRY(check_listens(&server->config, error));
    if (listens(server->config.listen_tls)) {
        if (make_early_guard(server) != BASE_OK) {
            return base_error_set(error, BASE_ERR_NOMEM, "no memory for early data");
        }
        BASE_TRY(load_tls(server, &server->config, &server->tls, error));
    }
    BASE_TRY(make_hosts(&server->config, server->tls, &server->hosts, error));
    if (gw_body_budget_new(&server->budget) != BASE_OK) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the budget of bodies");
    }
    BASE_TRY(make_spool_dir(server, error));
    return make_workers(server, error);
}

enum base_status gw_server_new(const struct gw_server_options *options,
                               struct gw_server **out_server, struct base_error *error)
{
    struct gw_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "no memory for the server");
    }
    size_t size = strlen(options->dir);
    if (size >= sizeof(server->dir)) {
        free(server);
        return base_error_set(error, BASE_ERR_INVALID, "the data directory's name is too long");
    }
    memcpy(server->dir, options->dir, size + 1);
    server->config = *options->config;
    server->core = options->core;
    server->tunnel = options->tunnel;
    server->log = options->log;
    server->stopped_fd = -1;
    atomic_init(&server->stopped_count, 0);
    server->worker_count = worker_count(options->config);
    enum base_status status = set_up(server, error);
    if (status != BASE_OK) {
        gw_server_free(server);
        return status;
    }
    gw_core_set_ready(server->core, true);
    *out_server = server;
    return BASE_OK;
}

// ---- Reload and stop

enum base_status gw_server_reload(struct gw_server *server, const struct gw_http_config *config,
                                  struct base_error *error)
{
    const char *fixed = gw_http_config_fixed_change(&server->config, config);
    if (fixed != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "%s cannot change without a restart", fixed);
    }
    struct gw_trust trust;
    BASE_TRY(gw_trust_read(config, &trust, error));
    SSL_CTX *tls = NULL;
    struct gw_host_list *hosts = NULL;
    if (server->tls != NULL) {
        BASE_TRY(load_tls(server, config, &tls, error));
    }
    enum base_status made = make_hosts(config, tls, &hosts, error);
    if (made != BASE_OK) {
        SSL_CTX_free(tls);
        return made;
    }
    if (tls != NULL) {
        SSL_CTX_free(server->tls);
        server->tls = tls;
    }
    gw_host_list_unref(server->hosts);
    server->hosts = hosts;
    server->config = *config;
    gw_core_set_checkin_interval(server->core, (uint32_t)config->checkin_interval_s);
    fit_connections(server);
    limit_memory(server);
    for (uint32_t i = 0; i < server->worker_count; i++) {
        enum base_status status =
            gw_http_worker_reload(server->workers[i], &server->config, tls, hosts);
        if (status != BASE_OK) {
            return base_error_set(error, status, "worker %u: %s", i, base_status_text(status));
        }
    }
    return BASE_OK;
}

void gw_server_upkeep(struct gw_server *server)
{
    struct tls_paths paths;
    struct base_error error = {0};
    struct gw_http_config config = server->config;
    if (server->tls == NULL) {
        return;
    }
    const struct gw_tls_files files = tls_files(server->dir, &config, server->early_guard, &paths);
    if (!gw_tls_context_due(&files)) {
        return;
    }
    if (gw_server_reload(server, &config, &error) != BASE_OK) {
        base_log_error(server->log, "server", "ticket keys and certificate stay as they are: %s",
                       error.text);
    }
}

void gw_server_stop(struct gw_server *server, uint64_t drain_ms)
{
    gw_core_set_ready(server->core, false);
    for (uint32_t i = 0; i < server->started_count; i++) {
        while (gw_http_worker_stop(server->workers[i], drain_ms) != BASE_OK) {
            usleep(1000); // out of memory for a moment
        }
    }
}

void gw_server_free(struct gw_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->started_count > 0 && atomic_load(&server->stopped_count) < server->started_count) {
        gw_server_stop(server, 0);
    }
    for (uint32_t i = 0; i < server->worker_count; i++) {
        gw_http_worker_free(server->workers[i]);
    }
    gw_peer_table_free(server->peers);
    gw_peer_rates_free(server->rates);
    gw_overload_free(server->overload);
    SSL_CTX_free(server->tls);
    gw_host_list_unref(server->hosts);
    gw_body_budget_free(server->budget);
    gw_early_guard_free(server->early_guard);
    if (server->stopped_fd >= 0) {
        close(server->stopped_fd);
    }
    free(server);
}
