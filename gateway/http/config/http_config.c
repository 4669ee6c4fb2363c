// The settings table and the reader of gateway.conf. Used by the main thread at start and on
// reload. gateway_main.c fills it from the file and from options, server.c asks which changes need
// a restart. A setting is one row: its reader, range, default and text come from there, so
// conf/gateway.conf and the error messages cannot say something else.
#include "http/config/http_config.h"

#include "base/check.h"
#include "base/text/likeness.h"
#include "base/os/regular_file.h"
#include "base/text/str_cut.h"
#include "http/memory/body_budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB    UINT64_C(1024)
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define DAY_MS UINT64_C(86400000)
// One stranger's part of it is enough for one body.
#define MEMORY_LEAST (GW_BUDGET_STRANGER_PART * GW_BUDGET_MEMORY_MIN)
#define FILES_LEAST  (GW_BUDGET_STRANGER_PART * GW_BUDGET_FILES_MIN)

#define NUMBER(name, field, min, max, number, reloadable, help)                                    \
    {                                                                                              \
        name, GW_CONFIG_NUMBER, offsetof(struct gw_http_config, field), min, max, number, NULL,    \
            reloadable, help                                                                       \
    }
#define TEXT(name, field, text, reloadable, help)                                                  \
    {                                                                                              \
        name, GW_CONFIG_TEXT, offsetof(struct gw_http_config, field), 0, GW_CONFIG_TEXT_MAX - 1,   \
            0, text, reloadable, help                                                              \
    }
#define FIXED  false
#define RELOAD true

static const struct gw_config_row rows[] = {
    TEXT("listen.tls", listen_tls, "127.0.0.1:8443", FIXED,
         "HTTP/2 over TLS 1.3; none: not at all"),
    TEXT("listen.h2c", listen_h2c, "127.0.0.1:8080", FIXED,
         "clear HTTP/2, loopback addresses only"),
    TEXT("listen.proxy_protocol", proxy_protocol, "off", RELOAD,
         "on: connections of listen.proxy_from begin with a PROXY header, version 1 or 2"),
    TEXT("listen.proxy_from", proxy_from, "", RELOAD,
         "addresses of balancers, ADDR or ADDR/BITS, with commas"),
    TEXT("listen.trusted_hops", trusted_hops, "", RELOAD,
         "addresses of proxies whose x-forwarded-for is believed, written the same way"),
    TEXT("listen.hosts", hosts, "", RELOAD,
         "names answered to, besides localhost, addresses and the certificate's; *: any"),
    NUMBER("workers", workers, 0, 64, 0, FIXED, "event loops; 0: one per core"),
    TEXT("tls.certificate", certificate, "", RELOAD,
         "PEM chain; empty: DIR/cert.pem, made if absent"),
    TEXT("tls.key", key, "", RELOAD, "PEM private key; empty: DIR/key.pem"),
    TEXT("tls.client_ca", client_ca, "", RELOAD,
         "PEM: who signs devices' certificates; empty: none are asked for"),
    NUMBER(
        "tls.ticket_key_s", tls_ticket_key_s, 0, 365 * 86400, 43200, RELOAD,
        "a new key seals session tickets after so long; the last ones still open them; 0: never"),
    NUMBER("tls.early_data_bytes", tls_early_data_bytes, 0, 16 * KIB, 8 * KIB, RELOAD,
           "a resumed connection may bring before its handshake is complete; 0: off"),
    TEXT("proxy.upstream", upstream, "", FIXED, "http://HOST:PORT behind every other path"),
    NUMBER("proxy.connections", proxy.connections, 1, 10000, 64, RELOAD,
           "to the upstream, per worker"),
    NUMBER("proxy.connections_strangers", proxy.shares[GW_SHARE_CONNECTION].strangers, 1, 10000, 48,
           RELOAD, "of them for all who did not prove who they are"),
    NUMBER("proxy.connections_per_client", proxy.shares[GW_SHARE_CONNECTION].client, 1, 10000, 16,
           RELOAD, "of them for one device or address"),
    NUMBER("proxy.waiting", proxy.waiting, 0, 100000, 1024, RELOAD, "requests that wait for one"),
    NUMBER("proxy.waiting_strangers", proxy.shares[GW_SHARE_PLACE].strangers, 0, 100000, 768,
           RELOAD, "of them of all who did not prove who they are"),
    NUMBER("proxy.waiting_per_client", proxy.shares[GW_SHARE_PLACE].client, 0, 100000, 256, RELOAD,
           "of them of one device or address"),
    NUMBER("proxy.connect_ms", proxy.connect_ms, 1, DAY_MS, 3000, RELOAD, "to connect, or 502"),
    NUMBER("proxy.reply_ms", proxy.reply_ms, 1, DAY_MS, 60000, RELOAD, "without progress, or 504"),
    NUMBER("proxy.total_ms", proxy.total_ms, 1, DAY_MS, 600000, RELOAD,
           "a request may have a connection, or 504"),
    NUMBER("proxy.body_bytes", proxy.body_bytes, 1 * KIB, 4 * GIB, 16 * MIB, RELOAD,
           "request body for the upstream; above: 413"),
    NUMBER("proxy.client_rate_bytes", proxy.client_rate_bytes, 1, 1 * GIB, 16 * KIB, RELOAD,
           "a second a client must take while the upstream waits for it"),
    TEXT("log.level", log_level, "info", FIXED, "error, warn, info or debug"),
    TEXT("admin.token_file", admin_token_file, "", FIXED,
         "bearer token of /api/v1; empty: DIR/admin.token, made if absent"),
    TEXT("metrics.access", metrics_access, "loopback", FIXED,
         "who reads /metrics without a token: loopback, open (all) or token (nobody)"),
    TEXT("ddi.token_file", ddi_token_file, "", FIXED,
         "GatewayToken of hawkBit's device API; empty: off"),
    TEXT("infer.models", infer_models, "", FIXED,
         "folder of models that are served by the Open Inference Protocol; empty: none are"),
    TEXT("infer.control", infer_control, "all", FIXED,
         "all: every model is loaded at start; explicit: those that an operator loads"),
    TEXT("infer.access", infer_access, "loopback", FIXED,
         "who calls models without a token: loopback, open (all) or token (nobody)"),
    NUMBER("infer.threads", infer_threads, 0, 64, 0, FIXED, "that run models; 0: one per core"),
    NUMBER("infer.session_bytes", infer_session_bytes, 1 * MIB, 64 * GIB, 1 * GIB, FIXED,
           "of activations one run may take, and of its plan; above: 413"),
    NUMBER("infer.idle_bytes", infer_idle_bytes, 1 * MIB, 1024 * GIB, 1 * GIB, FIXED,
           "kept of plans for the next calls, of all models; above: the oldest go"),
    NUMBER("infer.device_calls_per_min", infer_device_calls_per_min, 0, 1000000, 600, FIXED,
           "that one device may make; above: 429; 0: any number"),
    NUMBER("infer.device_bytes_per_min", infer_device_bytes_per_min, 0, 64 * GIB, 64 * MIB, FIXED,
           "that these may bring; above: 429; 0: any number"),
    NUMBER("infer.tenant_calls_per_min", infer_tenant_calls, 0, 1000000000, 0, FIXED,
           "calls of models a tenant may make in a minute; above: 429; 0: no limit"),
    NUMBER("infer.tenant_bytes_per_min", infer_tenant_bytes, 0, 64 * GIB, 0, FIXED,
           "bytes of their bodies; above: 429; 0: no limit"),
    NUMBER("store.map_bytes_max", map_bytes_max, 64 * MIB, 1024 * GIB, 64 * GIB, FIXED,
           "growth bound"),
    NUMBER("store.commit_delay_us", commit_delay_us, 1, 1000000, 2000, FIXED, "to gather a group"),
    NUMBER("tunnel.commit_delay_us", tunnel_commit_delay_us, 1, 5000, 1000, FIXED,
           "to gather a group of batches when many come"),
    NUMBER("tunnel.segment_bytes", tunnel_segment_bytes, 1 * MIB, 1 * GIB, 64 * MIB, FIXED,
           "of one file of the segment log"),
    NUMBER("tunnel.retain_bytes", tunnel_retain_bytes, 0, 1024 * 1024 * GIB, 0, FIXED,
           "of the segment log; then the oldest go; 0: half of the disk that is free at start"),
    NUMBER("tunnel.unproven_percent", tunnel_unproven_percent, 1, 100, 10, FIXED,
           "of the segment log, unproven devices may write in a day; 100: no bound"),
    NUMBER("disk.keep_free_bytes", disk_keep_free_bytes, 1 * MIB, 1024 * 1024 * GIB, 512 * MIB,
           FIXED, "below it devices' data is refused, below twice of it strangers'"),
    NUMBER("tunnel.credit_bytes", tunnel_credit_bytes, 128 * KIB, 16 * MIB, 256 * KIB, FIXED,
           "a device may have under way, per class"),
    NUMBER("tunnel.memory_bytes", tunnel_memory_bytes, 16 * MIB, 64 * GIB, 256 * MIB, FIXED,
           "of batches on their way to disk; above: no credit"),
    NUMBER("tunnel.thin_percent", tunnel_thin_percent, 1, 100, 50, FIXED,
           "of tunnel.memory_bytes in use; above: bulk classes are thinned"),
    NUMBER("tunnel.device_batches_per_s", tunnel_device_batches_per_s, 1, 1000000, 200, FIXED,
           "of one device; above: it is told to wait"),
    TEXT("tunnel.unknown_uploads", tunnel_unknown_uploads, "refuse", FIXED,
         "refuse or accept: uploads that no registered version declares"),
    TEXT("task.leaves", task_leaves, "optional", FIXED,
         "required: versions that do not declare what leaves devices are refused"),
    NUMBER("rollout.tick_ms", tick_ms, 10, 60000, 500, FIXED, "rollout controller's step"),
    TEXT("rollout.evidence_keys", evidence_keys, "", FIXED,
         "who may sign evidence of simulations where no root is served: public keys in hex, with "
         "commas"),
    NUMBER("device.checkin_interval_s", checkin_interval_s, 1, 604800, 300, RELOAD,
           "told to devices"),
    NUMBER("device.hint_spread_ms", hint_spread_ms, 0, DAY_MS, 0, FIXED, "check-ins after a hint"),
    NUMBER("device.hint_rate_per_s", hint_rate_per_s, 0, 100000000, 20000, FIXED,
           "hinted devices check in no faster than this; 0: all at once"),
    NUMBER("device.retry_after_s", retry_after_s, 1, 86400, 5, FIXED, "with 429 and 503"),
    TEXT("device.auth", device_auth, "optional", FIXED,
         "required: devices need a credential or a client certificate"),
    NUMBER("device.enroll_rate_per_s", enroll_rate_per_s, 1, 1000000, 5000, FIXED,
           "enrolments; above: 429"),
    NUMBER("device.unproven_records", unproven_records, 1, 64000000, 1000000, FIXED,
           "of devices that never showed who they are; above: no new ones, 429"),
    NUMBER("device.unproven_per_address", unproven_per_address, 1, 64000000, 20000, FIXED,
           "the same, from one address in device.unproven_expire_s"),
    NUMBER("device.unproven_expire_s", unproven_expire_s, 1, 315360000, 2592000, FIXED,
           "not heard of for so long, their records go"),
    NUMBER("trust.timestamp_life_s", timestamp_life_s, 60, 604800, 86400, FIXED,
           "how long a signed timestamp is good; signed anew at half of it"),
    NUMBER("trust.lease_s", lease_s, 1, 2592000, 900, FIXED,
           "how long a device may go on in beta and gray stages without an answer"),
    NUMBER("limits.header_list_bytes", limits.header_list_bytes, 1 * KIB, 60 * KIB, 32 * KIB,
           RELOAD, "request header names and values, 32 a field added; above: 431"),
    NUMBER("limits.header_table_bytes", limits.header_table_bytes, 0, 64 * KIB, 4 * KIB, RELOAD,
           "HPACK table a peer may fill; new connections"),
    NUMBER("limits.header_bytes_per_s", limits.header_bytes_per_s, 0, 4 * GIB - 1, 32 * MIB, RELOAD,
           "of header fields over 512 bytes, from one address; above: it waits; 0: no limit"),
    NUMBER("limits.body_bytes", limits.body_bytes, 1 * KIB, 1 * GIB, 1 * MIB, RELOAD,
           "request body; above: 413"),
    NUMBER("limits.upload_bytes", limits.upload_bytes, 1 * KIB, 4 * GIB, 256 * MIB, RELOAD,
           "request body of PUT /api/v1/blobs/ and /api/v1/exclusive/"),
    NUMBER("limits.infer_bytes", limits.infer_bytes, 1 * KIB, 1 * GIB, 64 * MIB, RELOAD,
           "request body of a call of a model"),
    NUMBER("limits.infer_memory_bytes", limits.infer_memory_bytes, 0, 1024 * GIB, 256 * MIB, RELOAD,
           "of them in memory at once beyond 256 KiB each; above: in files; one has half at most"),
    NUMBER("limits.infer_answer_bytes", limits.infer_answer_bytes, 1 * MIB, 1024 * GIB, 1 * GIB,
           RELOAD, "answers over 4 KiB that wait for readers; above: 503; one has half at most"),
    NUMBER("limits.body_bytes_total", limits.body_bytes_total, MEMORY_LEAST, 64 * GIB, 256 * MIB,
           RELOAD, "bodies held in memory at once; above: 503"),
    NUMBER("limits.body_bytes_strangers", limits.body_bytes_strangers, MEMORY_LEAST, 64 * GIB,
           64 * MIB, RELOAD, "of them of who proved nothing: 503; of one address an eighth: 429"),
    NUMBER("limits.body_bytes_actor", limits.body_bytes_actor, GW_BUDGET_MEMORY_MIN, 64 * GIB,
           16 * MIB, RELOAD, "of them of one token or device; above: 429"),
    NUMBER("limits.spool_bytes_total", limits.spool_bytes_total, FILES_LEAST, 1024 * GIB, 4 * GIB,
           RELOAD, "the same of bodies over 256 KiB, in files: 503"),
    NUMBER("limits.spool_bytes_strangers", limits.spool_bytes_strangers, FILES_LEAST, 1024 * GIB,
           256 * MIB, RELOAD, "of strangers: 503; of one address an eighth: 429"),
    NUMBER("limits.spool_bytes_actor", limits.spool_bytes_actor, GW_BUDGET_FILES_MIN, 1024 * GIB,
           1 * GIB, RELOAD, "of one token or device: 429"),
    NUMBER("limits.body_rate_bytes", limits.body_rate_bytes, 1, 1 * GIB, 1 * KIB, RELOAD,
           "bytes a second a body must come with, after timeouts.body_ms"),
    NUMBER("limits.streams", limits.streams, 1, 100000, 2048, RELOAD,
           "open at once on a connection; new connections"),
    NUMBER("limits.connections", limits.connections, 1, 1000000, 65536, RELOAD,
           "open, all workers"),
    NUMBER("limits.connections_per_address", limits.connections_per_address, 1, 1000000, 16384,
           RELOAD, "open from one address, all workers"),
    NUMBER("limits.connects_per_s", limits.connects_per_s, 0, 1000000, 2000, RELOAD,
           "connections an address may open, IPv6 by /64; above: closed; 0: no limit"),
    NUMBER("limits.connects_burst", limits.connects_burst, 1, 1000000, 16384, RELOAD,
           "the same, at once"),
    NUMBER("limits.handshakes_per_s", limits.handshakes_per_s, 0, 1000000, 400, RELOAD,
           "TLS handshakes an address may begin, as above"),
    NUMBER("limits.handshakes_burst", limits.handshakes_burst, 1, 1000000, 4000, RELOAD,
           "the same, at once"),
    NUMBER("limits.resets_per_s", limits.resets_per_s, 1, 100000, 200, RELOAD,
           "streams a peer may reset, per connection"),
    NUMBER("limits.resets_burst", limits.resets_burst, 1, 1000000, 4096, RELOAD,
           "the same, at once"),
    NUMBER("limits.control_frames_per_s", limits.control_frames_per_s, 1, 1000000, 200, RELOAD,
           "SETTINGS, PING, PRIORITY, empty DATA and unknown frames, per connection"),
    NUMBER("limits.control_frames_burst", limits.control_frames_burst, 1, 1000000, 2000, RELOAD,
           "the same, at once"),
    NUMBER("limits.continuations", limits.continuations, 1, 1000, 8, RELOAD,
           "CONTINUATION frames of one header block; new connections"),
    NUMBER("limits.output_frames", limits.output_frames, 16, 1000000, 8192, RELOAD,
           "frames queued for a peer that does not read; above: its input waits"),
    NUMBER("limits.socket_buffer_bytes", limits.socket_buffer_bytes, 0, 64 * MIB, 256 * KIB, RELOAD,
           "kernel buffer each way; 0: as the kernel likes; new connections"),
    NUMBER("limits.reply_rate_bytes", limits.reply_rate_bytes, 0, 1 * GIB, 512, RELOAD,
           "bytes a second a peer must take of what is for it, over timeouts.write_ms"),
    NUMBER("overload.memory_bytes", overload_memory_bytes, 0, 64 * 1024 * GIB, 0, RELOAD,
           "of the process; near it strangers are closed; 0: 3/4 of the machine's"),
    NUMBER("overload.socket_bytes", overload_socket_bytes, 0, 64 * 1024 * GIB, 0, RELOAD,
           "of its sockets in the kernel; 0: 1/8 of the machine's, or less"),
    NUMBER("timeouts.handshake_ms", limits.handshake_ms, 10, DAY_MS, 10000, RELOAD,
           "TLS and the HTTP/2 preface"),
    NUMBER("timeouts.header_ms", limits.header_ms, 10, DAY_MS, 10000, RELOAD, "one header block"),
    NUMBER("timeouts.body_ms", limits.body_ms, 10, DAY_MS, 30000, RELOAD,
           "request body; grows with limits.body_rate_bytes"),
    NUMBER("timeouts.body_total_ms", limits.body_total_ms, 10, DAY_MS, 600000, RELOAD,
           "request body, whatever its size and rate"),
    NUMBER("timeouts.idle_ms", limits.idle_ms, 10, 7 * DAY_MS, 900000, RELOAD,
           "connection without a stream"),
    NUMBER("timeouts.write_ms", limits.write_ms, 10, DAY_MS, 30000, RELOAD,
           "reply without progress, unread output; also the answer to a PING"),
    NUMBER("timeouts.ping_ms", limits.ping_ms, 10, DAY_MS, 180000, RELOAD,
           "silence on a connection with streams, then a PING"),
    NUMBER("timeouts.drain_ms", limits.drain_ms, 0, DAY_MS, 10000, RELOAD,
           "for open streams to finish at the end"),
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROW_COUNT <= GW_CONFIG_ROWS_MAX, "each row has a place for its line");

const struct gw_config_row *gw_http_config_rows(size_t *out_count)
{
    *out_count = ROW_COUNT;
    return rows;
}

static uint64_t *number_of(struct gw_http_config *config, const struct gw_config_row *row)
{
    return (uint64_t *)(void *)((char *)config + row->offset);
}

static char *text_of(struct gw_http_config *config, const struct gw_config_row *row)
{
    return (char *)config + row->offset;
}

void gw_http_config_defaults(struct gw_http_config *config)
{
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].kind == GW_CONFIG_NUMBER) {
            *number_of(config, &rows[i]) = rows[i].number;
        } else {
            memcpy(text_of(config, &rows[i]), rows[i].text, strlen(rows[i].text) + 1);
        }
    }
}

static const struct gw_config_row *find_row(struct base_str name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (base_str_equal(name, base_str_of(rows[i].name))) {
            return &rows[i];
        }
    }
    return NULL;
}

// A name that is another one's beginning is meant for that.
static const char *begun_row(struct base_str name)
{
    const char *found = NULL;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (name.size > 0 && strncmp(rows[i].name, name.data, name.size) == 0) {
            if (found != NULL) {
                return NULL;
            }
            found = rows[i].name;
        }
    }
    return found;
}

static const char *nearest_row(struct base_str name)
{
    const char *begun = begun_row(name);
    if (begun != NULL) {
        return begun;
    }
    struct base_nearest nearest = base_nearest_to(name);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        base_nearest_offer(&nearest, rows[i].name);
    }
    return nearest.found;
}

// How much of a text from outside goes into an error line.
static int shown(struct base_str text)
{
    return text.size < 40 ? (int)text.size : 40;
}

static enum base_status set_row(struct gw_http_config *config, const struct gw_config_row *row,
                                struct base_str value, struct base_error *error)
{
    if (row->kind == GW_CONFIG_TEXT) {
        if (value.size >= GW_CONFIG_TEXT_MAX || memchr(value.data, 0, value.size) != NULL) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: longer than %d bytes", row->name,
                                  GW_CONFIG_TEXT_MAX - 1);
        }
        char *text = text_of(config, row);
        memcpy(text, value.data, value.size);
        text[value.size] = '\0';
        return BASE_OK;
    }
    uint64_t number;
    if (base_str_u64(value, &number) != BASE_OK || number < row->min || number > row->max) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%s: '%.*s' is not a number between %" PRIu64 " and %" PRIu64,
                              row->name, shown(value), value.data, row->min, row->max);
    }
    *number_of(config, row) = number;
    return BASE_OK;
}

enum base_status gw_http_config_set(struct gw_http_config *config, struct base_str name,
                                    struct base_str value, struct base_error *error)
{
    const struct gw_config_row *row = find_row(name);
    if (row == NULL) {
        const char *meant = nearest_row(name);
        return base_error_set(error, BASE_ERR_INVALID, "unknown setting '%.*s'%s%s%s", shown(name),
                              name.data, meant != NULL ? ": did you mean " : "",
                              meant != NULL ? meant : "", meant != NULL ? "?" : "");
    }
    if (value.data == NULL) {
        value = BASE_STR("");
    }
    config->lines[row - rows] = 0;
    return set_row(config, row, value, error);
}

uint32_t gw_http_config_line(const struct gw_http_config *config, struct base_str name)
{
    const struct gw_config_row *row = find_row(name);
    return row != NULL ? config->lines[row - rows] : 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

// The line without its comment.
static struct base_str strip_comment(struct base_str line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (line.data[i] == '#' && (i == 0 || is_blank(line.data[i - 1]))) {
            line.size = i;
        }
    }
    return line;
}

static enum base_status parse_line(struct gw_http_config *config, struct base_str line,
                                   uint32_t number, struct base_error *error)
{
    const char *equals = memchr(line.data, '=', line.size);
    if (equals == NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "'%.*s' is not a line 'key = value'",
                              shown(line), line.data);
    }
    size_t name_size = (size_t)(equals - line.data);
    struct base_str name = base_str_trim((struct base_str){line.data, name_size});
    struct base_str value = base_str_trim((struct base_str){equals + 1, line.size - name_size - 1});
    const struct gw_config_row *row = find_row(name);
    if (row != NULL && config->lines[row - rows] != 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%s is set twice", row->name);
    }
    BASE_TRY(gw_http_config_set(config, name, value, error));
    config->lines[find_row(name) - rows] = number;
    return BASE_OK;
}

enum base_status gw_http_config_parse(struct gw_http_config *config, struct base_str text,
                                      struct base_error *error)
{
    uint32_t number = 0;
    memset(config->lines, 0, sizeof(config->lines));
    while (text.size > 0) {
        const char *newline = memchr(text.data, '\n', text.size);
        size_t size = newline != NULL ? (size_t)(newline - text.data) : text.size;
        struct base_str line = base_str_trim(strip_comment((struct base_str){text.data, size}));
        size_t step = newline != NULL ? size + 1 : size;
        text.data += step;
        text.size -= step;
        number++;
        if (line.size == 0) {
            continue;
        }
        enum base_status status = parse_line(config, line, number, error);
        if (status != BASE_OK) {
            if (error != NULL) {
                error->line = number;
            }
            return status;
        }
    }
    return BASE_OK;
}

enum base_status gw_http_config_load(struct gw_http_config *config, const char *path,
                                     struct base_error *error)
{
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error));
    char *text = malloc(GW_CONFIG_FILE_MAX);
    size_t size = text != NULL ? fread(text, 1, GW_CONFIG_FILE_MAX, file) : 0;
    bool failed = ferror(file) != 0;
    (void)fclose(file);
    enum base_status status;
    if (text == NULL) {
        status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    } else if (failed) {
        status = base_error_set(error, BASE_ERR_IO, "%s: cannot be read", path);
    } else if (size == GW_CONFIG_FILE_MAX) {
        status = base_error_set(error, BASE_ERR_TOO_LARGE, "%s: larger than %d bytes", path,
                                GW_CONFIG_FILE_MAX - 1);
    } else {
        status = gw_http_config_parse(config, (struct base_str){text, size}, error);
    }
    free(text);
    return status;
}

const char *gw_http_config_fixed_change(const struct gw_http_config *a,
                                        const struct gw_http_config *b)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].reloadable) {
            continue;
        }
        const char *left = (const char *)a + rows[i].offset;
        const char *right = (const char *)b + rows[i].offset;
        bool same = rows[i].kind == GW_CONFIG_TEXT ? strcmp(left, right) == 0
                                                   : memcmp(left, right, sizeof(uint64_t)) == 0;
        if (!same) {
            return rows[i].name;
        }
    }
    return NULL;
}

// ---- Words

enum base_status gw_http_config_access(const char *name, const char *text,
                                       enum gw_metrics_access *out, struct base_error *error)
{
    static const char *const words[GW_METRICS_COUNT] = {[GW_METRICS_LOOPBACK] = "loopback",
                                                        [GW_METRICS_OPEN] = "open",
                                                        [GW_METRICS_TOKEN] = "token"};
    for (int i = 0; i < GW_METRICS_COUNT; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = (enum gw_metrics_access)i;
            return BASE_OK;
        }
    }
    return base_error_set(error, BASE_ERR_INVALID, "%s: '%.60s' is not loopback, open or token",
                          name, text);
}

enum base_status gw_http_config_control(const struct gw_http_config *config,
                                        struct base_error *error)
{
    return strcmp(config->infer_control, "all") == 0 ||
                   strcmp(config->infer_control, "explicit") == 0
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "infer.control: '%.60s' is not all or explicit",
                                config->infer_control);
}
